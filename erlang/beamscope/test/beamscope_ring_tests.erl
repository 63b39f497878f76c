%%% The words that spans write into the ring. These tests act as its collector. Runs with the
%%% dyntrace in listening/ or in silent/, and with rings of 256 slots.
-module(beamscope_ring_tests).
-include_lib("eunit/include/eunit.hrl").
-include("../src/beamscope_ring.hrl").

-define(ALL, 16#FFFF).

%% Returns the array. Clears its ready word, so that collectors on this machine do not find the
%% ring. The header is saved before.
array() ->
    {Ring, _, _} = beamscope_facilities:decide(),
    Array = element(2, Ring),
    case persistent_term:get(?MODULE, none) of
        none ->
            ok = persistent_term:put(?MODULE, [atomics:get(Array, W) || W <- lists:seq(1, ?W_READY)]),
            ok = atomics:put(Array, ?W_READY, 0);
        _Header ->
            ok
    end,
    Array.

header(Word) ->
    _ = array(),
    lists:nth(Word, persistent_term:get(?MODULE)).

word(Word) -> atomics:get(array(), Word).

now_units() -> os:perf_counter() bsr ?LEASE_UNIT.

lease(Sample, Explain) -> lease(Sample, Explain, 60).

lease(Sample, Explain, Units) ->
    Until = (now_units() + Units) band ?LEASE_MASK,
    control((Sample bsl ?SAMPLE_SHIFT) bor (Explain bsl ?EXPLAIN_SHIFT) bor Until).

no_lease() -> control(0).

control(Word) ->
    Array = array(),
    Rings = atomics:get(Array, ?W_RINGS),
    [ok = atomics:put(Array, ?W_CONTROL(R), Word) || R <- lists:seq(0, Rings - 1)],
    ok.

%% Runs Fun on one scheduler, and returns the records that it wrote there.
records(Fun) ->
    process_flag(scheduler, 1),
    Before = word(?W_HEADS),
    Result = Fun(),
    Records = [record(Slot) || Slot <- lists:seq(Before + 1, word(?W_HEADS))],
    {Result, Records}.

%% {Kind, Name, Span, Extension, Time} of the record in a slot.
record(Slot) ->
    Log = word(?W_LOG_SLOTS),
    Index = Slot band ((1 bsl Log) - 1),
    At = word(?W_SLOTS) + Index * ?RECORD_WORDS,
    Lap = (Slot bsr Log) band ?LAP_MASK,
    [W0, W1] = [word(At), word(At + 1)],
    ?assertEqual([Lap, Lap], [W bsr ?LAP_SHIFT || W <- [W0, W1]]),
    Kind = (W1 bsr ?KIND_SHIFT) band 7,
    Extension = case Kind band ?EXTENDED of
                    0 -> none;
                    _ ->
                        W2 = word(word(?W_EXTENSIONS) + Index),
                        ?assertEqual(Lap, W2 bsr ?LAP_SHIFT),
                        W2 band ((1 bsl ?LAP_SHIFT) - 1)
                end,
    {Kind band 3, text((W0 bsr ?TEXT_SHIFT) band 16#FFF), W1 band ((1 bsl ?KIND_SHIFT) - 1), Extension, W0 band ?TIME_MASK}.

text(0) -> none;
text(4095) -> no_room;
text(Number) ->
    At = word(?W_TEXTS) + Number * ?TEXT_WORDS,
    Size = word(At) - ?TEXT_READY,
    Bytes = << <<(word(At + 1 + I)):56>> || I <- lists:seq(0, (Size + 6) div 7) >>,
    binary:part(Bytes, 0, Size).

%% The class of a failure.
class_of(none) -> none;
class_of(Extension) -> text(Extension).

class(Id) -> Id bsr ?CLASS_SHIFT.
root(Id) -> (class(Id) bsl ?CLASS_SHIFT) bor (?NO_RING bsl ?RING_SHIFT).

process() ->
    Pid = term_to_binary(self()),
    <<_:(byte_size(Pid) - 12)/binary, Number:32, Serial:32, _:32>> = Pid,
    ((Serial band ?SERIAL_MASK) bsl ?SERIAL_SHIFT) bor Number.

header_test() ->
    ?assertEqual([?MAGIC_1, ?MAGIC_2, ?RING_VERSION], [header(W) || W <- [1, 2, 3]]),
    ?assertEqual([maps:get(size, atomics:info(array())), 8, 1000000000, list_to_integer(os:getpid()), 1],
                 [header(W) || W <- [?W_WORDS, ?W_LOG_SLOTS, ?W_UNIT, ?W_OS_PID, ?W_READY]]).

%% The last word of each entry in the table of texts leads a collector to the beginning of the array.
%% A text of any length leaves it as it is.
markers_test() ->
    lease(?ALL, 0, 8),
    {_, Span} = beamscope:start_span(binary:copy(<<255>>, 300)),
    ok = beamscope:end_span(undefined, Span),
    Positions = [word(?W_TEXTS) + N * ?TEXT_WORDS + ?TEXT_WORDS - 1 || N <- lists:seq(0, word(?W_MAX_TEXTS) - 1)],
    ?assert(lists:last(Positions) < word(?W_SLOTS)),
    ?assertEqual([(?MARKER bsl ?MARKER_SHIFT) bor (At - 1) || At <- Positions], [word(At) || At <- Positions]).

%% Names that are new are kept in persistent terms. Adding these collects no garbage of other processes.
new_names_collect_no_garbage_test() ->
    lease(?ALL, 0, 8),
    Self = self(),
    Other = spawn_link(fun() -> Data = lists:seq(1, 1000), Self ! ready, receive stop -> length(Data) end end),
    receive ready -> ok end,
    Before = collections(Other),
    [ok = beamscope:with_span(<<"new ", (integer_to_binary(N))/binary>>, fun() -> ok end) || N <- lists:seq(1, 50)],
    ?assertEqual(Before, collections(Other)),
    unlink(Other),
    Other ! stop.

collections(Pid) ->
    {garbage_collection_info, Info} = process_info(Pid, garbage_collection_info),
    {garbage_collection, Counts} = process_info(Pid, garbage_collection),
    {lists:keyfind(old_heap_block_size, 1, Info), lists:keyfind(minor_gcs, 1, Counts)}.

nobody_reads_test() ->
    no_lease(),
    ?assertEqual({{undefined, ignore}, []}, records(fun() -> beamscope:start_span(a) end)),
    ?assertEqual({7, []}, records(fun() -> beamscope:with_span(a, fun() -> 7 end) end)).

%% After the end of a lease, the first span clears the control word.
lease_ends_test() ->
    lease(?ALL, 0, -1),
    ?assertEqual({{undefined, ignore}, []}, records(fun() -> beamscope:start_span(a) end)),
    ?assertEqual(0, word(?W_CONTROL(0))).

%% A lease too long to have been written by a collector is not valid.
lease_far_ahead_test() ->
    lease(?ALL, 0, 65),
    ?assertEqual({{undefined, ignore}, []}, records(fun() -> beamscope:start_span(a) end)),
    ?assertEqual(0, word(?W_CONTROL(0))).

start_and_end_test() ->
    lease(?ALL, 0),
    Before = os:perf_counter() band ?TIME_MASK,
    {{ring, Birth, Id, Name}, Records} =
        records(fun() ->
                        {undefined, Span} = beamscope:start_span(<<"worker">>),
                        ok = beamscope:end_span(undefined, Span),
                        Span
                end),
    Root = root(Id),
    [{?KIND_START, <<"worker">>, Root, none, Start}, {?KIND_SUCCESS, <<"worker">>, Id, none, End}] = Records,
    ?assert(Before =< Start andalso Start =< End),
    ?assertEqual(word(?W_BIRTH), Birth),
    ?assertEqual(<<"worker">>, text(Name)).

%% A start has its process if a collector requests it.
process_test() ->
    lease(?ALL, 0),
    control(word(?W_CONTROL(0)) bor ?WITH_PROCESS),
    Process = process(),
    {_, [{?KIND_START, <<"worker">>, _, Process, _}, {?KIND_SUCCESS, <<"worker">>, _, none, _}]} =
        records(fun() ->
                        {Ctx, Span} = beamscope:start_span(<<"worker">>),
                        ok = beamscope:end_span(Ctx, Span)
                end).

fail_test_() ->
    [?_test(begin
                lease(?ALL, 0),
                {Id, [_, {?KIND_FAILURE, <<"worker">>, Id, Extension, _}]} =
                    records(fun() ->
                                    {_, {ring, _, Id, _} = Span} = beamscope:start_span(worker),
                                    ok = beamscope:fail_span(Span, Class),
                                    Id
                            end),
                ?assertEqual(Expected, class_of(Extension))
            end)
     || {Class, Expected} <- [{<<>>, none}, {oops, <<"oops">>}, {{error, 7}, <<"{error,7}">>},
                              {binary:copy(<<"x">>, 300), binary:copy(<<"x">>, 255)}]].

exception_test() ->
    lease(?ALL, 0),
    {_, [_, {?KIND_FAILURE, <<"a">>, _, Class, _}]} =
        records(fun() -> ?assertError(oops, beamscope:with_span(a, fun() -> error(oops) end)) end),
    ?assertEqual(<<"error:oops">>, class_of(Class)),
    ?assertEqual(undefined, get('$beamscope_span')).

%% A parent in this ring is identified by its slot, and passes its class on.
parent_test() ->
    lease(?ALL, 0),
    {{Outer, Inner}, Records} =
        records(fun() ->
                        beamscope:with_span(outer,
                                            fun() ->
                                                    {ring, _, Outer, _} = get('$beamscope_span'),
                                                    {_, {ring, _, Inner, _}} = beamscope:start_span(inner),
                                                    {Outer, Inner}
                                            end)
                end),
    ?assertMatch([{?KIND_START, <<"outer">>, _, _, _}, {?KIND_START, <<"inner">>, Outer, _, _}, {?KIND_SUCCESS, _, Outer, _, _}],
                 Records),
    ?assertEqual(class(Outer), class(Inner)).

%% A span of another VM has no slot here, so its children have only its class.
parent_of_another_ring_test() ->
    lease(?ALL, 0),
    Foreign = {ring, 1, (5 bsl ?CLASS_SHIFT) bor 77, 3},
    {{ring, _, Id, _}, [{?KIND_START, _, Ref, _, _}]} =
        records(fun() -> element(2, beamscope:start_span(a, #{parent => Foreign})) end),
    ?assertEqual({5, root(Id)}, {class(Id), Ref}),
    ?assertEqual({ok, []}, records(fun() -> beamscope:end_span(undefined, Foreign) end)).

%% If a class is not in the sample, neither its spans nor their children are recorded, in any
%% process.
sample_test() ->
    lease(0, 0),
    {{skip, Class}, []} = records(fun() -> element(2, beamscope:start_span(a)) end),
    lease(?ALL bxor (1 bsl Class), 0),
    Self = self(),
    ?assertEqual({ok, []},
                 records(fun() ->
                                 spawn_opt(fun() ->
                                                   {_, Span} = beamscope:start_span(b, #{parent => {skip, Class}}),
                                                   ok = beamscope:end_span(undefined, Span),
                                                   ok = beamscope:fail_span(Span, oops),
                                                   Self ! Span
                                           end, [{scheduler, 1}]),
                                 receive {skip, Class} -> ok end
                         end)).

%% The classes have about the same number of roots.
classes_test() ->
    lease(?ALL, 0),
    Classes = [begin lease(?ALL, 0), {_, {ring, _, Id, _}} = beamscope:start_span(a), class(Id) end || _ <- lists:seq(1, 16000)],
    Counts = [length([C || C <- Classes, C =:= K]) || K <- lists:seq(0, 15)],
    ?assert(lists:min(Counts) > 500 andalso lists:max(Counts) < 1500).

%% Spans that are to be explained fire the VM's probe. Without probes, they call a function. The
%% ring has them too, marked as such.
explain_test() ->
    lease(?ALL, ?ALL),
    {{explained, Fired, {ring, _, Slot, _}} = Span, Records} = records(fun() -> element(2, beamscope:start_span(a)) end),
    ?assertMatch([{?KIND_EXPLAINED_START, <<"a">>, _, none, _}], Records),
    [{_, _, Root, _, _}] = Records,
    ?assertEqual(root(Slot), Root),
    case beamscope_facilities:probes() of
        true ->
            {Id, _, <<"a">>} = Fired,
            ?assertEqual(Id band 15, class(Slot)),
            receive {hit, _, Id, 1, 1, 0, <<"a">>, <<>>} -> ok end,
            {{explained, {Child, _, _}, _}, [{?KIND_EXPLAINED_START, <<"b">>, Slot, none, _}]} =
                records(fun() -> element(2, beamscope:start_span(b, #{parent => Span})) end),
            ?assertEqual(Id band 15, Child band 15),
            receive {hit, _, Child, 1, 1, Id, <<"b">>, <<>>} -> ok end,
            lease(?ALL, 0), % its children are only in the ring from now on, in its class
            {{ring, _, Later, _}, [{?KIND_START, <<"c">>, Slot, _, _}]} =
                records(fun() -> element(2, beamscope:start_span(c, #{parent => Span})) end),
            ?assertEqual(Id band 15, class(Later)),
            {ok, [{?KIND_SUCCESS, <<"a">>, Slot, ?EXPLAINED_END, _}]} = records(fun() -> beamscope:end_span(undefined, Span) end),
            receive {hit, _, Id, 2, 1, 0, <<"a">>, <<>>} -> ok end;
        false ->
            {call, Id, Label, <<"a">>} = Fired,
            ?assertEqual(Id band 15, class(Slot)),
            lease(?ALL, ?ALL),
            {{explained, Child, _}, Calls} =
                calls(fun() ->
                              {_, Inner} = beamscope:start_span(b, #{parent => Span}),
                              ok = beamscope:fail_span(Inner, oops),
                              ok = beamscope:end_span(undefined, Span),
                              Inner
                      end),
            {call, ChildId, ChildLabel, <<"b">>} = Child,
            ?assertEqual(Id band 15, ChildId band 15),
            ?assertEqual([{?MAGIC_1, 1, ChildLabel, 1, ChildId, Id, <<"b">>, <<>>},
                          {?MAGIC_1, 1, ChildLabel, 3, ChildId, 0, <<"b">>, <<"oops">>},
                          {?MAGIC_1, 1, Label, 2, Id, 0, <<"a">>, <<>>}], Calls),
            lease(?ALL, 0), % its children are in the ring from now on, in its class
            {{ring, _, Later, _}, [{?KIND_START, <<"c">>, Slot, _, _}]} =
                records(fun() -> element(2, beamscope:start_span(c, #{parent => Span})) end),
            ?assertEqual(Id band 15, class(Later))
    end.

%% The end of an explained span is marked, and has the class of a failure besides.
explained_end_test() ->
    [begin
         lease(?ALL, ?ALL),
         {_, {explained, _, {ring, _, Slot, _}} = Span} = beamscope:start_span(a),
         {_, [{?KIND_FAILURE, <<"a">>, Slot, Extension, _}]} = records(fun() -> beamscope:fail_span(Span, Class) end),
         ?assertEqual({?EXPLAINED_END, Text}, {Extension band ?EXPLAINED_END, text(Extension band 16#FFF)})
     end || {Class, Text} <- [{<<>>, none}, {oops, <<"oops">>}]],
    flush().

flush() -> receive {hit, _, _, _, _, _, _, _} -> flush() after 0 -> ok end.

%% An explained span of another VM is ignored: its Id means nothing here.
foreign_explained_test() ->
    lease(?ALL, ?ALL),
    {_, {explained, Fired, {ring, Birth, Slot, Name}}} = beamscope:start_span(a),
    flush(),
    Foreign = {explained, Fired, {ring, Birth + 1, Slot, Name}},
    ?assertEqual({{ok, ok}, []}, records(fun() -> {beamscope:end_span(undefined, Foreign), beamscope:fail_span(Foreign, oops)} end)),
    receive {hit, _, _, _, _, _, _, _} = Hit -> error(Hit) after 0 -> ok end.

%% If no collector listens to the probe, a span that is to be explained is only recorded.
unheard_test() ->
    case beamscope_facilities:probes() of
        true ->
            put(nobody, true),
            lease(?ALL, ?ALL),
            {{ring, _, _, _}, [{?KIND_START, <<"a">>, _, none, _}]} =
                records(fun() -> element(2, beamscope:start_span(a)) end),
            erase(nobody);
        false ->
            ok
    end.

%% The arguments of calls to the function that stands in for probes, with decoded texts.
calls(Fun) ->
    Self = self(),
    Tracer = spawn_link(fun() -> traced([], Self) end),
    _ = erlang:trace_pattern({ets, is_compiled_ms, 1}, true, []),
    _ = erlang:trace(Self, true, [call, {tracer, Tracer}]),
    Result = Fun(),
    _ = erlang:trace(Self, false, [call]),
    _ = erlang:trace_pattern({ets, is_compiled_ms, 1}, false, []),
    Ref = erlang:trace_delivered(Self),
    receive {trace_delivered, Self, Ref} -> ok end,
    Tracer ! done,
    receive {Tracer, Calls} -> {Result, Calls} end.

traced(Calls, To) ->
    receive
        {trace, _, call, {ets, is_compiled_ms, [Call]}} ->
            {Name, Detail} = {element(7, Call), element(8, Call)},
            traced([setelement(8, setelement(7, Call, characters(Name)), characters(Detail)) | Calls], To);
        done ->
            To ! {self(), lists:reverse(Calls)}
    end.

%% The text in an integer: its bytes, the first one lowest, then 8 zero bytes and a one.
characters(0) -> <<>>;
characters(Number) ->
    Bytes = binary:encode_unsigned(Number, little),
    Size = byte_size(Bytes) - 9,
    <<Text:Size/binary, 0:64, 1>> = Bytes,
    Text.

%% Spans that give their process a token fire the VM's probe. Without probes or a listening
%% collector, they give no token.
token_test() ->
    lease(?ALL, 0),
    Attrs = #{seq_trace => true},
    Start = fun() -> {_, Span} = beamscope:start_span(a, Attrs), {Span, seq_trace:get_token(label)} end,
    Within = fun() -> beamscope:with_span(b, fun() -> {get('$beamscope_span'), seq_trace:get_token(label)} end, Attrs) end,
    case beamscope_facilities:probes() of
        true ->
            {{{explained, {Id, _, <<"a">>, Label}, _} = Span, {label, Label}}, [{?KIND_EXPLAINED_START, <<"a">>, _, _, _}]} = records(Start),
            ok = beamscope:end_span(undefined, Span),
            ?assertEqual([], seq_trace:get_token(label)),
            {{{explained, {Inner, _, <<"b">>}, _}, {label, _}},
             [{?KIND_EXPLAINED_START, <<"b">>, _, _, _}, {?KIND_SUCCESS, <<"b">>, _, ?EXPLAINED_END, _}]} = records(Within),
            ?assertEqual([], seq_trace:get_token(label)),
            [receive {hit, _, I, Kind, 1, 0, _, <<>>} -> ok end || I <- [Id, Inner], Kind <- [1, 2]],
            _ = seq_trace:set_token([]), % that of the last message
            put(nobody, true);
        false ->
            ok
    end,
    ?assertMatch({{{ring, _, _, _}, []}, [{?KIND_START, <<"a">>, _, _, _}]}, records(Start)),
    ?assertMatch({{{ring, _, _, _}, []}, [{?KIND_START, <<"b">>, _, _, _}, {?KIND_SUCCESS, <<"b">>, _, _, _}]}, records(Within)),
    erase(nobody).

%% A full ring continues with the next lap.
laps_test() ->
    lease(?ALL, 0),
    process_flag(scheduler, 1),
    Laps = word(?W_HEADS) bsr 8,
    [beamscope:start_span(a) || _ <- lists:seq(1, 300)],
    lease(?ALL, 0),
    {_, [{?KIND_START, <<"last">>, _, _, _}]} = records(fun() -> beamscope:start_span(last) end),
    ?assert(word(?W_HEADS) bsr 8 > Laps).

%% If failures have filled their part of the table of texts, there is still room for names.
texts_test() ->
    [begin
         lease(?ALL, 0),
         {_, Span} = beamscope:start_span(many),
         ok = beamscope:fail_span(Span, {class, N})
     end || N <- lists:seq(1, 3300)],
    lease(?ALL, 0),
    {_, [_, {?KIND_FAILURE, <<"many">>, _, Class, _}]} =
        records(fun() -> {_, Span} = beamscope:start_span(many), beamscope:fail_span(Span, another_class) end),
    ?assertEqual(no_room, class_of(Class)),
    {_, {ring, _, _, Name}} = beamscope:start_span(<<"a late name">>),
    ?assertEqual(<<"a late name">>, text(Name)).

%% A process caches only a few names, and none that keeps a large binary in memory.
names_test() ->
    Names = [integer_to_binary(N) || N <- lists:seq(100, 111)],
    <<Part:100/binary, _/binary>> = Large = binary:copy(<<"x">>, 10000),
    lease(?ALL, 0),
    [{_, _} = beamscope:start_span(Name) || Name <- [binary:copy(Part) | Names]], % they are in the table then
    {_, Monitor} = spawn_monitor(fun() ->
        [begin
             lease(?ALL, 0),
             {_, [{?KIND_START, Name, _, none, _}]} = records(fun() -> beamscope:start_span(Name) end)
         end || _ <- lists:seq(1, 40), Name <- [Part | Names]],
        [Known] = [V || {K, V} <- get(), lists:prefix("$beamscope_names", atom_to_list(K))],
        exit({known, map_size(Known), maps:keys(Known) -- Names, byte_size(Large)})
    end),
    receive {'DOWN', Monitor, process, _, Reason} -> ?assertEqual({known, 8, [], 10000}, Reason) end.

%% A span can end on another scheduler, in another process.
elsewhere_test() ->
    lease(?ALL, 0),
    {Ctx, {ring, _, Id, _} = Span} = beamscope:start_span(a),
    Schedulers = erlang:system_info(schedulers),
    Heads = fun() -> [word(?W_HEADS + R * ?HEAD_STRIDE) || R <- lists:seq(0, Schedulers - 1)] end,
    Before = lists:last(Heads()),
    {_, Monitor} = spawn_opt(fun() -> beamscope:end_span(Ctx, Span) end, [monitor, {scheduler, Schedulers}]),
    receive {'DOWN', Monitor, process, _, normal} -> ok end,
    ?assertEqual(Before + 1, lists:last(Heads())),
    ?assert(Id > 0).
