%%% @doc Records spans in an atomics array, which a collector reads from outside.
%%%
%%% The array has a header, a control word, a table of texts, and a ring of records for
%%% each scheduler. A collector finds it in the VM's memory and writes the control word:
%%% until when it reads, which is its lease, and which spans it wants. A span looks at that
%%% word first. Where the lease has ended, nothing is recorded, so spans fall silent by
%%% themselves when a collector dies. Nothing here waits for a collector or another process.
%%%
%%% A record takes a slot by one atomic addition and is then written word by word. Each
%%% word begins with the lap, the number of times that the ring was filled, so a reader
%%% knows which records are whole: all of their words are of the same lap.
-module(beamscope_ring).

-export([open/0, control/1, start/4, finish/4, lineage/3]).

-export_type([ring/0, control/0, handle/0, id/0, class/0]).

-compile({inline, [class/2, ring_number/1, take_slot/2, lap/2, place/3, parent/2]}).

-include("beamscope_ring.hrl").

-record(ring, {array :: atomics:atomics_ref(),
               birth :: integer(),
               rings :: 1..?MAX_RINGS,
               log :: 8..24,               % of the slots of one ring
               first :: pos_integer(),     % where they begin
               probes :: boolean()}).      % the VM has probes besides

-opaque ring() :: #ring{}.
-type id() :: 0..16#3FFFFFFFFFFFF.
%% The class of the span's root, and the ring and slot of its start.
-type class() :: 0..15.
-type control() :: non_neg_integer().
-type handle() :: {ring, Birth :: integer(), id(), Name :: 0..4095}.
%% The name is the number of a text.

%% The array stays for the life of the VM: freed memory may be another's, and collectors
%% write to it.
-define(KEY, beamscope_ring).
-define(TEXT(Text), {beamscope_ring, Text}).

%% What identifies this process in its records.
-define(PROCESS, '$beamscope_process').

-define(MAX_TEXTS, 4096).
-define(MAX_CLASSES, 3072).              % texts that are there when a failure adds one
-define(NO_ROOM, (?MAX_TEXTS - 1)).      % the text of what found no room in the table

%% @doc The VM's ring, which the first call makes. Calls follow one another.
-spec open() -> {ok, ring()} | {error, unicode:chardata()}.
open() ->
    case persistent_term:get(?KEY, undefined) of
        undefined -> make();
        Ring -> {ok, Ring}
    end.

make() ->
    case erlang:convert_time_unit(1, second, perf_counter) of
        1000000000 -> make(log_slots());
        _ -> {error, "os:perf_counter() does not count nanoseconds"}
    end.

make(Log) ->
    Rings = min(?MAX_RINGS, erlang:system_info(schedulers)),
    Texts = round_up(?W_HEADS + Rings * ?HEAD_STRIDE),
    First = round_up(Texts + ?MAX_TEXTS * ?TEXT_WORDS),
    Words = First - 1 + (Rings bsl Log) * ?RECORD_WORDS,
    try atomics:new(Words, [{signed, false}]) of
        Array ->
            Birth = os:perf_counter(),
            Probes = beamscope_facilities:probes(),
            [ok = atomics:put(Array, At, Value) ||
                {At, Value} <- [{?W_MAGIC, ?MAGIC_1}, {?W_MAGIC + 1, ?MAGIC_2}, {?W_VERSION, ?RING_VERSION},
                                {?W_WORDS, Words}, {?W_RINGS, Rings}, {?W_LOG_SLOTS, Log},
                                {?W_TEXTS, Texts}, {?W_MAX_TEXTS, ?MAX_TEXTS}, {?W_SLOTS, First},
                                {?W_UNIT, 1000000000}, {?W_OS_PID, list_to_integer(os:getpid())},
                                {?W_BIRTH, Birth},
                                {?W_PROBES, if Probes -> 1; true -> 0 end}]],
            %% The first slot is that of lap 1: an empty one is of lap 0.
            [ok = atomics:put(Array, ?W_HEADS + R * ?HEAD_STRIDE, (1 bsl Log) - 1) || R <- lists:seq(0, Rings - 1)],
            ok = atomics:put(Array, ?W_READY, 1),
            Ring = #ring{array = Array, birth = Birth, rings = Rings, log = Log, first = First,
                         probes = Probes},
            ok = persistent_term:put(?KEY, Ring),
            {ok, Ring}
    catch
        error:_ -> {error, "there is no memory for its ring"}
    end.

%% Index 1 of an array is at the beginning of a cache line or in the middle of one,
%% as the VM has it; this keeps the parts apart by whole lines all the same.
round_up(Word) -> (Word + 15) band bnot 7 + 1.

%% A ring of 2^15 slots takes 1 MiB. All together take 8 MiB at the least, so that a
%% VM with few schedulers keeps as much.
log_slots() ->
    case application:get_env(beamscope, ring_slots) of
        {ok, Slots} when is_integer(Slots), Slots > 0 -> min(24, max(8, log2(Slots)));
        _ -> max(15, 18 - log2(erlang:system_info(schedulers)))
    end.

log2(N) -> log2(N, 0).
log2(N, Log) when 1 bsl Log >= N -> Log;
log2(N, Log) -> log2(N, Log + 1).

%% @doc What collectors want, 0 where there is none.
-spec control(ring()) -> control().
control(#ring{array = Array}) -> atomics:get(Array, ?W_CONTROL).

%% @doc Records the start of a span, if that is what collectors want: they may have gone,
%% may take a sample that it is not in, or want the VM's probe to fire instead. A span
%% without a parent has a class drawn by the time, others that of their root.
-spec start(ring(), control(), root | {id(), class()} | class(), beamscope:name()) ->
          handle() | {skip, class()} | {probe, class()} | ignore.
start(Ring, Control, Parent, Name) ->
    Now = os:perf_counter(),
    case (Control - (Now bsr ?LEASE_UNIT)) band ?LEASE_MASK of
        Left when Left > 0, Left =< ?LEASE_MAX ->
            Class = class(Parent, Now),
            Bit = 1 bsl Class,
            if
                Control band (Bit bsl ?SAMPLE_SHIFT) =:= 0 ->
                    {skip, Class};
                Control band (Bit bsl ?EXPLAIN_SHIFT) =/= 0, Ring#ring.probes ->
                    {probe, Class};
                true ->
                    record(Ring, Class, Parent, text(Ring, beamscope:text(Name), ?NO_ROOM), Now)
            end;
        _ ->
            %% The collector is gone. Later spans need not look at the clock.
            _ = atomics:compare_exchange(Ring#ring.array, ?W_CONTROL, Control, 0),
            ignore
    end.

class(root, Now) -> (((Now band 16#FFFFFF) * 40503) bsr 12) band (?CLASSES - 1);
class({_Id, Class}, _) -> Class;
class(Class, _) -> Class.

record(#ring{array = Array, birth = Birth} = Ring, Class, Parent, Text, Now) ->
    R = ring_number(Ring),
    Slot = take_slot(Ring, R),
    Lap = lap(Ring, Slot),
    At = place(Ring, R, Slot),
    ok = atomics:put(Array, At, Lap bor (Text bsl ?TEXT_SHIFT) bor (Now band ?TIME_MASK)),
    ok = atomics:put(Array, At + 1, Lap bor (?KIND_START bsl ?KIND_SHIFT) bor parent(Class, Parent)),
    ok = atomics:put(Array, At + 2, Lap bor process()),
    {ring, Birth, (Class bsl ?CLASS_SHIFT) bor (R bsl ?RING_SHIFT) bor (Slot band ?SLOT_MASK), Text}.

parent(_Class, {Id, _}) -> Id;
parent(Class, _) -> (Class bsl ?CLASS_SHIFT) bor (?NO_RING bsl ?RING_SHIFT).

%% @doc Records the end of a span, in any process. A failure may have a class. A span of
%% another VM, or of another life of this one, is not ended here.
-spec finish(ring(), handle(), success | failure, beamscope:text()) -> ok.
finish(#ring{birth = Birth} = Ring, {ring, Birth, Id, Name}, success, _) ->
    finish(Ring, Id, ?KIND_SUCCESS, Name, Name);
finish(#ring{birth = Birth} = Ring, {ring, Birth, Id, Name}, failure, Class) ->
    finish(Ring, Id, ?KIND_FAILURE, class_text(Ring, Class), Name);
finish(_Ring, _Other, _How, _Class) ->
    ok.

class_text(_Ring, <<>>) -> 0;
class_text(Ring, Class) -> text(Ring, Class, ?MAX_CLASSES).

%% The third word of a failure is for the name, as the first has its class. The slot is
%% taken before the clock is read: a reader that has seen all slots that were taken up to
%% some time knows of all ends up to then, also of those that are yet to be written.
finish(#ring{array = Array} = Ring, Id, Kind, Text, Name) ->
    R = ring_number(Ring),
    Slot = take_slot(Ring, R),
    Now = os:perf_counter(),
    Lap = lap(Ring, Slot),
    At = place(Ring, R, Slot),
    ok = atomics:put(Array, At, Lap bor (Text bsl ?TEXT_SHIFT) bor (Now band ?TIME_MASK)),
    ok = atomics:put(Array, At + 1, Lap bor (Kind bsl ?KIND_SHIFT) bor Id),
    Kind =:= ?KIND_SUCCESS orelse atomics:put(Array, At + 2, Lap bor Name),
    ok.

ring_number(#ring{rings = Rings}) -> (erlang:system_info(scheduler_id) - 1) rem Rings.
take_slot(#ring{array = Array}, R) -> atomics:add_get(Array, ?W_HEADS + R * ?HEAD_STRIDE, 1).
lap(#ring{log = Log}, Slot) -> ((Slot bsr Log) band ?LAP_MASK) bsl ?LAP_SHIFT.
place(#ring{first = First, log = Log}, R, Slot) ->
    First + ((R bsl Log) bor (Slot band ((1 bsl Log) - 1))) * ?RECORD_WORDS.

%% @doc What a span that starts within one of a ring of this birth has of it: the parent and
%% the class of its root, or the class alone where the parent is not in this ring.
-spec lineage(ring(), Birth :: integer(), id()) -> {id(), class()} | class().
lineage(#ring{birth = Birth}, Birth, Id) -> {Id, class(Id)};
lineage(_Ring, _Other, Id) -> class(Id).

class(Id) -> Id bsr ?CLASS_SHIFT.

%% The number and the serial of this process's pid. To find them costs several times as
%% much as the rest of a record, so a process remembers its own.
process() ->
    case get(?PROCESS) of
        undefined ->
            Pid = term_to_binary(self()),
            <<_:(byte_size(Pid) - 12)/binary, Number:32, Serial:32, _Creation:32>> = Pid,
            Process = ((Serial band ?SERIAL_MASK) bsl ?SERIAL_SHIFT) bor Number,
            _ = put(?PROCESS, Process),
            Process;
        Process ->
            Process
    end.

%% The number of a text. A new one is added to the table while it has fewer than Most.
text(Ring, Text, Most) ->
    case persistent_term:get(?TEXT(Text), none) of
        none -> add_text(Ring, Text, Most);
        Number -> Number
    end.

%% Two processes may add a text at once. Then it is there twice, which readers allow for.
%% A new persistent term makes no process collect its garbage.
add_text(#ring{array = Array} = Ring, Text, Most) ->
    case atomics:get(Array, ?W_TEXT_COUNT) < Most - 1 andalso atomics:add_get(Array, ?W_TEXT_COUNT, 1) of
        Number when is_integer(Number), Number < ?NO_ROOM ->
            put_text(Ring, Number, Text),
            ok = persistent_term:put(?TEXT(binary:copy(Text)), Number),
            Number;
        _ ->
            ?NO_ROOM
    end.

put_text(#ring{array = Array} = Ring, Number, Text) ->
    At = texts(Ring) + Number * ?TEXT_WORDS,
    put_bytes(Array, At + 1, Text),
    ok = atomics:put(Array, At, ?TEXT_READY bor byte_size(Text)).

texts(#ring{rings = Rings}) -> round_up(?W_HEADS + Rings * ?HEAD_STRIDE).

put_bytes(Array, At, <<Word:56, Rest/binary>>) ->
    ok = atomics:put(Array, At, Word),
    put_bytes(Array, At + 1, Rest);
put_bytes(Array, At, Rest) ->
    Bits = bit_size(Rest),
    <<Word:Bits>> = Rest,
    atomics:put(Array, At, Word bsl (56 - Bits)).
