-module(mm1k_tests).
-include_lib("eunit/include/eunit.hrl").

%% A stage whose worker never finishes accepts exactly K messages and drops the rest.
queue_holds_k_test() ->
    Self = self(),
    Stage = mm1k_stage:start_link(mm1k_stage:start_worker(1),
                                  #{name => <<"stage">>, k => 3, loops => 0, delay => 0,
                                    next => fun(_) -> Self ! {at_work, self()}, receive go -> Self ! done end end,
                                    dropped => fun() -> Self ! dropped end}),
    Probe = {undefined, ignore},
    mm1k_stage:arrive(Stage, Probe),
    Worker = receive {at_work, Pid} -> Pid end,
    %% The worker is blocked after it has freed its place. Three more messages fill the queue.
    [mm1k_stage:arrive(Stage, Probe) || _ <- [1, 2, 3, 4, 5]],
    [receive dropped -> ok end || _ <- [4, 5]],
    [begin Worker ! go, receive done -> ok end end || _ <- [0, 1, 2, 3]],
    receive dropped -> error(too_many) after 0 -> ok end,
    mm1k_stage:set(Stage, k, 1),
    mm1k_stage:stop(Stage),
    mm1k_stage:stop(Worker).

system_test() ->
    {ok, Pid} = mm1k:start_link(#{rate => 0, k => 5, loops => 10, seed => 1}),
    ?assertMatch(#{rate := 0, k := 5, loops := 10, seed := 1, sent := 0, done := 0}, mm1k:info()),
    ok = mm1k:set(k, 7),
    ok = mm1k:set(loops, 20),
    ok = mm1k:set(rate, 5000),
    ?assertEqual({error, {bad_option, k, 0}}, mm1k:set(k, 0)),
    ?assertEqual({error, {bad_option, colour, red}}, mm1k:set(colour, red)),
    ?assertEqual({error, {fixed, seed}}, mm1k:set(seed, 2)),
    ?assertMatch(#{rate := 5000, k := 7, loops := 20}, mm1k:info()),
    until_done(100),
    ok = mm1k:stop(),
    ?assertNot(is_process_alive(Pid)).

%% After the last message, the counts include every message.
balance_test() ->
    {ok, _} = mm1k:start_link(#{rate => 5000, k => 1, loops => 20_000, seed => 1}),
    until_done(50),
    ok = mm1k:set(rate, 0),
    until_settled(),
    #{sent := Sent, dropped_1 := D1, dropped_2 := D2, done := Done} = mm1k:info(),
    ?assertEqual(Sent, D1 + D2 + Done),
    ok = mm1k:stop().

%% A worker for both queues takes messages in the order of arrival, and ends with the system.
shared_test() ->
    {ok, _} = mm1k:start_link(#{rate => 1000, loops => 0, delay => 0.1, shared => true, seed => 1}),
    until_done(50),
    ?assertEqual({error, {fixed, shared}}, mm1k:set(shared, false)),
    ?assertEqual({error, {fixed, seq_trace}}, mm1k:set(seq_trace, true)),
    ?assertMatch(#{shared := true, delay := 0.1}, mm1k:info()),
    ok = mm1k:stop().

%% As many messages as possible go through, and all of them leave.
flow_test() ->
    {_, Monitor} = spawn_monitor(fun() -> exit({mm1k:flow(#{k => 3}, 20), process_info(self(), [links, messages])}) end),
    {#{messages := Messages, ns_per_message := Each}, Left} =
        receive {'DOWN', Monitor, process, _, Result} -> Result end,
    ?assert(Messages > 3),
    ?assert(Messages * Each >= 20_000_000),
    ?assertEqual([{links, []}, {messages, []}], Left).

bad_options_test() ->
    process_flag(trap_exit, true),
    ?assertEqual({error, {bad_option, rate, -1}}, mm1k:start_link(#{rate => -1})),
    ?assertEqual({error, {bad_option, speed, 1}}, mm1k:start_link(#{speed => 1})).

until_done(N) ->
    case mm1k:info() of
        #{done := Done} when Done >= N -> ok;
        _ -> erlang:yield(), until_done(N)
    end.

until_settled() ->
    #{sent := Sent, dropped_1 := D1, dropped_2 := D2, done := Done} = mm1k:info(),
    Sent =:= D1 + D2 + Done orelse begin erlang:yield(), until_settled() end.
