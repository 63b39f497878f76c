%%% @doc Records spans in an atomics array, which a collector reads from outside.
%%%
%%% The array has a header, a table of texts, and for each scheduler a ring of records with a
%%% control word. A collector finds the array in the VM's memory and writes the control words. A
%%% control word contains the end of the collector's lease, and the spans that it requests. A span
%%% first reads the control word of its scheduler. If the lease has ended, nothing is recorded. So
%%% spans stop recording soon after a collector dies. A new ring has a lease for its first seconds,
%%% in which a collector can find it. Nothing here waits for a collector or another process.
%%%
%%% A record takes a slot by one atomic addition and is then written word by word. Each word begins
%%% with the lap, the number of times that the ring was filled. So a reader knows which records are
%%% complete: all of their words are of the same lap.
%%%
%%% Every span runs this code, so it is optimized for speed: it builds no tuples on the way, and
%%% calls few functions that are not inlined.
-module(beamscope_ring).

-export([open/0, made/1, start/5, record/7, success/3, success_explained/3, failure/4, failure_explained/4]).

-export_type([ring/0, control/0, handle/0, id/0, class/0]).

-compile({inline, [root_class/1, root/1, class/1, record/8, put_record/8, ring_number/1, take_slot/2, lap/2, index/3]}).

-include("beamscope_ring.hrl").

-type ring() :: #ring{}.
-type id() :: 0..16#1FFFFFFFFFFFF.
%% The class of the span's root, and the ring and slot of its start.
-type class() :: 0..15.
-type control() :: non_neg_integer().
-type handle() :: {ring, Birth :: integer(), id(), Name :: 0..4095}.
%% The name is the number of a text.

%% The array exists as long as the VM, because collectors write to it and freed memory may be
%% reused. The keys contain the version of the layout, because other code with another layout may be
%% loaded.
-define(KEY, beamscope_ring_5).
-define(TEXT(Text), {beamscope_ring_5, Text}).

%% The key of this process's identity in records.
-define(PROCESS, '$beamscope_process').

%% The key, in the process dictionary, of a map from names that this process has used to their
%% numbers. Looking a name up among the persistent terms takes three times as long.
-define(NAMES, '$beamscope_names_5').
-define(MAX_NAMES, 8).                   % in that map
-define(MAX_KEPT, 256).                  % bytes that a name keeps in memory, if it is a part of another binary

-define(MAX_TEXTS, 4096).
-define(MAX_CLASSES, 3072).              % texts that are there when a failure adds one
-define(NO_ROOM, (?MAX_TEXTS - 1)).      % the text of what found no room in the table

%% @doc Returns the VM's ring. The first call makes it. Calls must not be concurrent.
-spec open() -> {ok, ring()} | {error, unicode:chardata()}.
open() ->
    case persistent_term:get(?KEY, undefined) of
        undefined -> make();
        Ring -> {ok, Ring}
    end.

%% @doc Returns the ring that this VM made at some time, if it did.
-spec made(Birth :: integer()) -> ring() | none.
made(Birth) ->
    case persistent_term:get(?KEY, none) of
        #ring{birth = Birth} = Ring -> Ring;
        _ -> none
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
    Extensions = First + (Rings bsl Log) * ?RECORD_WORDS,
    Words = Extensions - 1 + (Rings bsl Log),
    try atomics:new(Words, [{signed, false}]) of
        Array ->
            Birth = os:perf_counter(),
            Probes = beamscope_facilities:probes(),
            [ok = atomics:put(Array, At, Value) ||
                {At, Value} <- [{?W_MAGIC, ?MAGIC_1}, {?W_MAGIC + 1, ?MAGIC_2}, {?W_VERSION, ?RING_VERSION},
                                {?W_WORDS, Words}, {?W_RINGS, Rings}, {?W_LOG_SLOTS, Log},
                                {?W_TEXTS, Texts}, {?W_MAX_TEXTS, ?MAX_TEXTS}, {?W_SLOTS, First},
                                {?W_EXTENSIONS, Extensions}, {?W_UNIT, 1000000000}, {?W_OS_PID, list_to_integer(os:getpid())},
                                {?W_BIRTH, Birth},
                                {?W_PROBES, if Probes -> ?WITH_PROBES; true -> ?WITH_CALLS end}]],
            [ok = atomics:put(Array, At, (?MARKER bsl ?MARKER_SHIFT) bor (At - 1)) ||
                At <- lists:seq(Texts + ?TEXT_WORDS - 1, Texts + ?MAX_TEXTS * ?TEXT_WORDS - 1, ?TEXT_WORDS)],
            Control = first_control(Birth),
            [begin
                 %% The first slot is of lap 1, because an empty slot is of lap 0.
                 ok = atomics:put(Array, ?W_HEAD(R), (1 bsl Log) - 1),
                 ok = atomics:put(Array, ?W_CONTROL(R), Control)
             end || R <- lists:seq(0, Rings - 1)],
            ok = atomics:put(Array, ?W_READY, 1),
            Ring = #ring{array = Array, birth = Birth, rings = Rings, log = Log,
                         size = 1 bsl Log, mask = (1 bsl Log) - 1,
                         first = First, extensions = Extensions, probes = Probes},
            ok = persistent_term:put(?KEY, Ring),
            {ok, Ring}
    catch
        error:_ -> {error, "there is no memory for its ring"}
    end.

%% For some seconds from the first span on, all spans are recorded, with their processes.
first_control(Birth) ->
    Until = ((Birth bsr ?LEASE_UNIT) + ?FIRST_LEASE) band ?LEASE_MASK,
    (?ALL_RECORDED bsl ?EXPLAIN_SHIFT) bor ?WITH_PROCESS bor Until.

%% Depending on the VM, index 1 of an array is at the beginning or in the middle of a cache line. In
%% both cases, this keeps the parts in different cache lines.
round_up(Word) -> (Word + 15) band bnot 7 + 1.

%% A ring of 2^15 slots takes 768 KiB. All rings together have at least 2^18 slots, 6 MiB, so that a
%% VM with few schedulers keeps as many records.
log_slots() ->
    case application:get_env(beamscope, ring_slots) of
        {ok, Slots} when is_integer(Slots), Slots > 0 -> min(24, max(8, log2(Slots)));
        _ -> max(15, 18 - log2(erlang:system_info(schedulers)))
    end.

log2(N) -> log2(N, 0).
log2(N, Log) when 1 bsl Log >= N -> Log;
log2(N, Log) -> log2(N, Log + 1).

%% @doc Records the start of a span in ring R, if the control word asks for it. The word is not 0,
%% but the lease may have ended, or the sample may not contain the span. The start of a span that is
%% to be explained is not recorded yet: the caller first shows it to programs in the kernel, and then
%% calls {@link record/7}. The time chooses the class of a span without a parent. Other spans have
%% the class of their root.
-spec start(ring(), R :: non_neg_integer(), control(), Parent :: beamscope:handle() | undefined, beamscope:name()) ->
          handle() | {skip, class()} | {explain, class()} | ignore.
start(Ring, R, Control, undefined, Name) ->
    Now = os:perf_counter(),
    Class = root_class(Now),
    start(Ring, R, Control, Now, Class, root(Class), Name);
start(#ring{birth = Birth} = Ring, R, Control, {ring, Birth, Id, _}, Name) ->
    start(Ring, R, Control, os:perf_counter(), class(Id), Id, Name);
start(Ring, R, Control, {explained, _, Parent}, Name) ->
    start(Ring, R, Control, Parent, Name);
start(Ring, R, Control, Parent, Name) ->
    %% The parent has no slot in this ring: it was not recorded, or belongs to another VM.
    case beamscope:class(Parent) of
        none -> start(Ring, R, Control, undefined, Name);
        Class -> start(Ring, R, Control, os:perf_counter(), Class, root(Class), Name)
    end.

start(Ring, R, Control, Now, Class, Parent, Name) ->
    case (Control - (Now bsr ?LEASE_UNIT)) band ?LEASE_MASK of
        Left when Left > 0, Left =< ?LEASE_MAX ->
            case Control bsr ?EXPLAIN_SHIFT of
                ?ALL_RECORDED ->
                    record(Ring, R, Control, Now, Class, ?KIND_START, Parent, Name);
                Masks when (Masks bsr (Class + ?CLASSES)) band 1 =:= 0 ->
                    {skip, Class};
                Masks when (Masks bsr Class) band 1 =:= 1 ->
                    {explain, Class};
                _ ->
                    record(Ring, R, Control, Now, Class, ?KIND_START, Parent, Name)
            end;
        _ ->
            %% The collector is gone. Later spans then need not read the clock.
            _ = atomics:compare_exchange(Ring#ring.array, ?W_CONTROL(R), Control, 0),
            ignore
    end.

root_class(Now) -> (((Now band 16#FFFFFF) * 40503) bsr 12) band (?CLASSES - 1).

%% The parent field of a start without a parent in the ring.
root(Class) -> (Class bsl ?CLASS_SHIFT) bor (?NO_RING bsl ?RING_SHIFT).

class(Id) -> Id bsr ?CLASS_SHIFT.

%% @doc Records the start of a span for which {@link start/5} returned its class. Explained says
%% whether programs in the kernel saw it.
-spec record(ring(), R :: non_neg_integer(), control(), class(), Explained :: boolean(),
             Parent :: beamscope:handle() | undefined, beamscope:name()) -> handle().
record(#ring{birth = Birth} = Ring, R, Control, Class, Explained, Parent, Name) ->
    Kind = if Explained -> ?KIND_EXPLAINED_START; true -> ?KIND_START end,
    ParentId = case Parent of
                   {ring, Birth, Id, _} -> Id;
                   {explained, _, {ring, Birth, Id, _}} -> Id;
                   _ -> root(Class)
               end,
    record(Ring, R, Control, os:perf_counter(), Class, Kind, ParentId, Name).

record(#ring{birth = Birth} = Ring, R, Control, Now, Class, Kind, Parent, Name) ->
    Text = name(Ring, Now, Name),
    Slot = take_slot(Ring, R),
    case Control band ?WITH_PROCESS of
        0 -> put_record(Ring, R, Slot, Kind, Parent, Text, Now, none);
        _ -> put_record(Ring, R, Slot, Kind, Parent, Text, Now, process())
    end,
    {ring, Birth, (Class bsl ?CLASS_SHIFT) bor (R bsl ?RING_SHIFT) bor (Slot band ?SLOT_MASK), Text}.

%% @doc Records that a span of this ring has succeeded, in any process.
-spec success(ring(), id(), Name :: 0..4095) -> ok.
success(Ring, Id, Name) ->
    R = ring_number(Ring),
    Slot = take_slot(Ring, R),
    put_record(Ring, R, Slot, ?KIND_SUCCESS, Id, Name, os:perf_counter(), none).

%% @doc Likewise for a span that was recorded as explained.
-spec success_explained(ring(), id(), Name :: 0..4095) -> ok.
success_explained(Ring, Id, Name) ->
    R = ring_number(Ring),
    Slot = take_slot(Ring, R),
    put_record(Ring, R, Slot, ?KIND_SUCCESS, Id, Name, os:perf_counter(), ?EXPLAINED_END).

%% @doc Records that a span of this ring has failed, in any process. The class may be empty.
-spec failure(ring(), id(), Name :: 0..4095, Class :: beamscope:text()) -> ok.
failure(Ring, Id, Name, <<>>) ->
    failed(Ring, Id, Name, none);
failure(Ring, Id, Name, Class) ->
    failed(Ring, Id, Name, text(Ring, Class, ?MAX_CLASSES)).

%% @doc Likewise for a span that was recorded as explained.
-spec failure_explained(ring(), id(), Name :: 0..4095, Class :: beamscope:text()) -> ok.
failure_explained(Ring, Id, Name, <<>>) ->
    failed(Ring, Id, Name, ?EXPLAINED_END);
failure_explained(Ring, Id, Name, Class) ->
    failed(Ring, Id, Name, ?EXPLAINED_END bor text(Ring, Class, ?MAX_CLASSES)).

failed(Ring, Id, Name, Class) ->
    R = ring_number(Ring),
    Slot = take_slot(Ring, R),
    put_record(Ring, R, Slot, ?KIND_FAILURE, Id, Name, os:perf_counter(), Class).

ring_number(#ring{rings = Rings}) ->
    Scheduler = erlang:system_info(scheduler_id),
    ?RING_OF(Scheduler, Rings).

%% An end takes its slot before it reads the clock. So a reader that knows all slots taken up to
%% some time knows all ends up to then, including those that are not written yet.
take_slot(#ring{array = Array}, R) -> atomics:add_get(Array, ?W_HEAD(R), 1).

%% The extension is written first, so a complete record has its extension.
put_record(#ring{array = Array} = Ring, R, Slot, Kind, Span, Text, Time, none) ->
    Lap = lap(Ring, Slot),
    At = Ring#ring.first + index(Ring, R, Slot) * ?RECORD_WORDS,
    ok = atomics:put(Array, At, Lap bor (Text bsl ?TEXT_SHIFT) bor (Time band ?TIME_MASK)),
    atomics:put(Array, At + 1, Lap bor (Kind bsl ?KIND_SHIFT) bor Span);
put_record(#ring{array = Array} = Ring, R, Slot, Kind, Span, Text, Time, Extension) ->
    ok = atomics:put(Array, Ring#ring.extensions + index(Ring, R, Slot), lap(Ring, Slot) bor Extension),
    put_record(Ring, R, Slot, Kind bor ?EXTENDED, Span, Text, Time, none).

lap(#ring{log = Log}, Slot) -> ((Slot bsr Log) band ?LAP_MASK) bsl ?LAP_SHIFT.
index(#ring{size = Size, mask = Mask}, R, Slot) -> R * Size + (Slot band Mask).

%% The number and serial of this process's pid. Determining them costs several times as much as the
%% rest of a record, so each process caches its own.
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

%% The number of a name.
name(Ring, Now, Name) when is_binary(Name) ->
    case get(?NAMES) of
        #{Name := Number} ->
            Number;
        Known ->
            case persistent_term:get(?TEXT(Name), none) of
                none ->
                    text(Ring, beamscope:text(Name), ?NO_ROOM);
                Number ->
                    Now band 7 =/= 0 orelse remember(Name, Number, Known),
                    Number
            end
    end;
name(Ring, _Now, Name) ->
    text(Ring, beamscope:text(Name), ?NO_ROOM).

%% A process caches a name at one in eight spans, at random. In a process with few spans, caching
%% would cost more than it saves.
remember(Name, Number, undefined) -> remember(Name, Number, #{});
remember(Name, Number, Known) when map_size(Known) < ?MAX_NAMES ->
    case binary:referenced_byte_size(Name) of
        Bytes when Bytes =< ?MAX_KEPT -> put(?NAMES, Known#{Name => Number});
        _ -> ok
    end;
remember(_Name, _Number, _Known) -> ok.

%% The number of a text. A new text is added if the table has fewer than Most.
text(Ring, Text, Most) ->
    case persistent_term:get(?TEXT(Text), none) of
        none -> add_text(Ring, Text, Most);
        Number -> Number
    end.

%% Two processes may add the same text concurrently. Then the table contains it twice, which readers
%% accept. A new persistent term triggers no garbage collection.
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
