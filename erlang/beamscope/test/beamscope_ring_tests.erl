%%% What spans write into the ring, word by word, while these tests are its collector. Runs
%%% with the dyntrace in listening/ or in silent/, and rings of 256 slots.
-module(beamscope_ring_tests).
-include_lib("eunit/include/eunit.hrl").
-include("../src/beamscope_ring.hrl").

-define(ALL, 16#FFFF).

%% The array, which is hidden from collectors that may look for rings on this machine: the
%% word that says that it is ready is taken back. Its header is kept as it was.
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

lease(Sample, Explain) -> lease(Sample, Explain, 8).

lease(Sample, Explain, Units) ->
    Until = (now_units() + Units) band ?LEASE_MASK,
    atomics:put(array(), ?W_CONTROL, (Sample bsl ?SAMPLE_SHIFT) bor (Explain bsl ?EXPLAIN_SHIFT) bor Until).

no_lease() -> atomics:put(array(), ?W_CONTROL, 0).

%% Runs Fun on one scheduler, and returns the records that it wrote there.
records(Fun) ->
    process_flag(scheduler, 1),
    Before = word(?W_HEADS),
    Result = Fun(),
    Records = [record(Slot) || Slot <- lists:seq(Before + 1, word(?W_HEADS))],
    {Result, Records}.

record(Slot) ->
    Log = word(?W_LOG_SLOTS),
    At = word(?W_SLOTS) + (Slot band ((1 bsl Log) - 1)) * ?RECORD_WORDS,
    Lap = (Slot bsr Log) band ?LAP_MASK,
    [W0, W1, W2] = [word(At + I) || I <- [0, 1, 2]],
    ?assertEqual([Lap, Lap], [W bsr ?LAP_SHIFT || W <- [W0, W1]]),
    Ref = W1 band ((1 bsl ?KIND_SHIFT) - 1),
    Third = case W2 bsr ?LAP_SHIFT of
                Lap -> W2 band ((1 bsl ?LAP_SHIFT) - 1);
                _ -> none
            end,
    {(W1 bsr ?KIND_SHIFT) band 3, text((W0 bsr ?TEXT_SHIFT) band 16#FFF), Ref, Third, W0 band ?TIME_MASK}.

text(0) -> none;
text(4095) -> no_room;
text(Number) ->
    At = word(?W_TEXTS) + Number * ?TEXT_WORDS,
    Size = word(At) - ?TEXT_READY,
    Bytes = << <<(word(At + 1 + I)):56>> || I <- lists:seq(0, (Size + 6) div 7) >>,
    binary:part(Bytes, 0, Size).

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

nobody_reads_test() ->
    no_lease(),
    ?assertEqual({{undefined, ignore}, []}, records(fun() -> beamscope:start_span(a) end)),
    ?assertEqual({7, []}, records(fun() -> beamscope:with_span(a, fun() -> 7 end) end)).

%% The first span after the end of a lease takes it back.
lease_ends_test() ->
    lease(?ALL, 0, -1),
    ?assertEqual({{undefined, ignore}, []}, records(fun() -> beamscope:start_span(a) end)),
    ?assertEqual(0, word(?W_CONTROL)).

%% A lease that no collector can have written does not hold.
lease_far_ahead_test() ->
    lease(?ALL, 0, 65),
    ?assertEqual({{undefined, ignore}, []}, records(fun() -> beamscope:start_span(a) end)),
    ?assertEqual(0, word(?W_CONTROL)).

start_and_end_test() ->
    lease(?ALL, 0),
    Before = os:perf_counter() band ?TIME_MASK,
    {{ring, Birth, Id, Name}, Records} =
        records(fun() ->
                        {undefined, Span} = beamscope:start_span(<<"worker">>),
                        ok = beamscope:end_span(undefined, Span),
                        Span
                end),
    Process = process(),
    Root = root(Id),
    [{?KIND_START, <<"worker">>, Root, Process, Start}, {?KIND_SUCCESS, <<"worker">>, Id, _, End}] = Records,
    ?assert(Before =< Start andalso Start =< End),
    ?assertEqual(word(?W_BIRTH), Birth),
    ?assertEqual(<<"worker">>, text(Name)).

fail_test_() ->
    [?_test(begin
                lease(?ALL, 0),
                {Id, [_, {?KIND_FAILURE, Expected, Id, Name, _}]} =
                    records(fun() ->
                                    {_, {ring, _, Id, _} = Span} = beamscope:start_span(worker),
                                    ok = beamscope:fail_span(Span, Class),
                                    Id
                            end),
                ?assertEqual(<<"worker">>, text(Name))
            end)
     || {Class, Expected} <- [{<<>>, none}, {oops, <<"oops">>}, {{error, 7}, <<"{error,7}">>},
                              {binary:copy(<<"x">>, 300), binary:copy(<<"x">>, 255)}]].

exception_test() ->
    lease(?ALL, 0),
    {_, [_, {?KIND_FAILURE, <<"error:oops">>, _, _, _}]} =
        records(fun() -> ?assertError(oops, beamscope:with_span(a, fun() -> error(oops) end)) end),
    ?assertEqual(undefined, get('$beamscope_span')).

%% A parent of this ring is known by its slot, and gives its class on.
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

%% A span of another VM has no slot here: its class is all that its children have.
parent_of_another_ring_test() ->
    lease(?ALL, 0),
    Foreign = {ring, 1, (5 bsl ?CLASS_SHIFT) bor 77, 3},
    {{ring, _, Id, _}, [{?KIND_START, _, Ref, _, _}]} =
        records(fun() -> element(2, beamscope:start_span(a, #{parent => Foreign})) end),
    ?assertEqual({5, root(Id)}, {class(Id), Ref}),
    ?assertEqual({ok, []}, records(fun() -> beamscope:end_span(undefined, Foreign) end)).

%% A class that is not in the sample is neither recorded nor are its children, in any process.
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

%% About as many roots are of each class.
classes_test() ->
    lease(?ALL, 0),
    Classes = [begin lease(?ALL, 0), {_, {ring, _, Id, _}} = beamscope:start_span(a), class(Id) end || _ <- lists:seq(1, 16000)],
    Counts = [length([C || C <- Classes, C =:= K]) || K <- lists:seq(0, 15)],
    ?assert(lists:min(Counts) > 500 andalso lists:max(Counts) < 1500).

%% Spans that are to be explained fire the VM's probe, or are recorded where there is none.
explain_test() ->
    lease(?ALL, ?ALL),
    {Span, Records} = records(fun() -> element(2, beamscope:start_span(a)) end),
    case beamscope_facilities:probes() of
        true ->
            {Id, _, <<"a">>} = Span,
            ?assertEqual([], Records),
            receive {hit, _, Id, 1, 1, 0, <<"a">>, <<>>} -> ok end,
            {_, {Child, _, _}} = beamscope:start_span(b, #{parent => Span}),
            ?assertEqual(Id band 15, Child band 15),
            receive {hit, _, Child, 1, 1, Id, <<"b">>, <<>>} -> ok end,
            lease(?ALL, 0), % its children are in the ring from now on, in its class
            {{ring, _, Later, _}, [{?KIND_START, _, _, _, _}]} =
                records(fun() -> element(2, beamscope:start_span(c, #{parent => Span})) end),
            ?assertEqual(Id band 15, class(Later)),
            ok = beamscope:end_span(undefined, Span),
            receive {hit, _, Id, 2, 1, 0, <<"a">>, <<>>} -> ok end;
        false ->
            ?assertMatch({ring, _, _, _}, Span),
            ?assertMatch([{?KIND_START, <<"a">>, _, _, _}], Records)
    end.

%% A ring that was filled goes on with the next lap.
laps_test() ->
    lease(?ALL, 0),
    process_flag(scheduler, 1),
    Laps = word(?W_HEADS) bsr 8,
    [beamscope:start_span(a) || _ <- lists:seq(1, 300)],
    lease(?ALL, 0),
    {_, [{?KIND_START, <<"last">>, _, _, _}]} = records(fun() -> beamscope:start_span(last) end),
    ?assert(word(?W_HEADS) bsr 8 > Laps).

%% Where failures have filled their part of the table of texts, names still find room.
texts_test() ->
    [begin
         lease(?ALL, 0),
         {_, Span} = beamscope:start_span(many),
         ok = beamscope:fail_span(Span, {class, N})
     end || N <- lists:seq(1, 3300)],
    lease(?ALL, 0),
    {_, [_, {?KIND_FAILURE, no_room, _, _, _}]} =
        records(fun() -> {_, Span} = beamscope:start_span(many), beamscope:fail_span(Span, another_class) end),
    {_, {ring, _, _, Name}} = beamscope:start_span(<<"a late name">>),
    ?assertEqual(<<"a late name">>, text(Name)).

%% Spans end on another scheduler, in another process.
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
