-module(mm1k_tests).
-include_lib("eunit/include/eunit.hrl").

-define(MS, 1_000_000).
-define(SECOND, 1_000_000_000).

%% The schedule is pure, so an hour of arrivals passes in no time, looked at
%% with the irregular steps of a real timer.
arrivals(Rate, Until) ->
    arrivals(mm1k_source:new(Rate, 42, 0), 0, Until, rand:seed_s(exsss, 7), []).

arrivals(_, Now, Until, _, Counts) when Now >= Until -> Counts;
arrivals(Schedule0, Now, Until, Random0, Counts) ->
    {Count, Schedule} = mm1k_source:due(Schedule0, Now),
    {Late, Random} = rand:uniform_s(2 * ?MS, Random0),
    Next = Now + mm1k_source:wait(Schedule, Now) * ?MS + Late,
    arrivals(Schedule, Next, Until, Random, [Count | Counts]).

%% N arrivals in T have variance N; within five standard deviations, then, and
%% exactly the same every time, as the seed is fixed.
rate_holds_test_() ->
    [?_test(begin
                N = lists:sum(arrivals(Rate, 600 * ?SECOND)),
                Mean = Rate * 600,
                ?assert(abs(N - Mean) < 5 * math:sqrt(Mean))
            end) || Rate <- [0.5, 10, 500, 5000]].

exponential_test() ->
    {Xs, _} = lists:mapfoldl(fun(_, R) -> mm1k_work:exponential(R) end, mm1k_work:seed(1), lists:seq(1, 100_000)),
    Mean = lists:sum(Xs) / 100_000,
    Variance = lists:sum([(X - Mean) * (X - Mean) || X <- Xs]) / 100_000,
    ?assert(abs(Mean - 1) < 0.02),
    ?assert(abs(Variance - 1) < 0.05),
    %% Its quantiles: P(X > t) = exp(-t).
    [?assert(abs(length([X || X <- Xs, X > T]) / 100_000 - math:exp(-T)) < 0.01) || T <- [0.1, 0.7, 2, 4]].

seeds_test() ->
    {A, _} = mm1k_work:exponential(mm1k_work:seed({1, 2})),
    {A, _} = mm1k_work:exponential(mm1k_work:seed({1, 2})),
    {B, _} = mm1k_work:exponential(mm1k_work:seed({1, 3})),
    ?assertNotEqual(A, B).

no_drift_test() ->
    S0 = mm1k_source:new(1000, 1, 0),
    {N1, S1} = mm1k_source:due(S0, ?SECOND div 2),
    {N2, _} = mm1k_source:due(S1, ?SECOND),
    {N, _} = mm1k_source:due(S0, ?SECOND),
    ?assertEqual(N, N1 + N2).

long_sleep_is_skipped_test() ->
    S0 = mm1k_source:new(1000, 1, 0),
    {0, S} = mm1k_source:due(S0, 3600 * ?SECOND),
    {N, _} = mm1k_source:due(S, 3600 * ?SECOND + 100 * ?MS),
    ?assert(N > 0 andalso N < 200).

rate_zero_test() ->
    S0 = mm1k_source:new(0, 1, 0),
    ?assertEqual(infinity, mm1k_source:wait(S0, 0)),
    ?assertMatch({0, _}, mm1k_source:due(S0, ?SECOND)),
    S = mm1k_source:set_rate(S0, 1000, ?SECOND),
    ?assert(is_integer(mm1k_source:wait(S, ?SECOND))).

wait_rounds_up_test() ->
    S = mm1k_source:new(1000, 1, 0),
    Wait = mm1k_source:wait(S, 0),
    ?assertMatch({0, _}, mm1k_source:due(S, (Wait - 1) * ?MS)),
    ?assertMatch({N, _} when N > 0, mm1k_source:due(S, Wait * ?MS)).

%% A stage whose worker cannot finish takes exactly K and drops the rest.
queue_holds_k_test() ->
    Self = self(),
    Stage = mm1k_stage:start_link(#{name => <<"stage">>, k => 3, loops => 0, seed => 1,
                                    next => fun(_) -> Self ! {at_work, self()}, receive go -> Self ! done end end,
                                    dropped => fun() -> Self ! dropped end}),
    Probe = {undefined, ignore},
    mm1k_stage:arrive(Stage, Probe),
    Worker = receive {at_work, Pid} -> Pid end,
    %% The worker is held after giving its place back; three more fill the queue.
    [mm1k_stage:arrive(Stage, Probe) || _ <- [1, 2, 3, 4, 5]],
    [receive dropped -> ok end || _ <- [4, 5]],
    [begin Worker ! go, receive done -> ok end end || _ <- [0, 1, 2, 3]],
    receive dropped -> error(too_many) after 0 -> ok end,
    mm1k_stage:set(Stage, k, 1),
    unlink(element(1, Stage)), unlink(element(2, Stage)),
    mm1k_stage:stop(Stage).

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

%% Every message is accounted for once the last has gone through.
balance_test() ->
    {ok, _} = mm1k:start_link(#{rate => 5000, k => 1, loops => 20_000, seed => 1}),
    until_done(50),
    ok = mm1k:set(rate, 0),
    until_settled(),
    #{sent := Sent, dropped_1 := D1, dropped_2 := D2, done := Done} = mm1k:info(),
    ?assertEqual(Sent, D1 + D2 + Done),
    ok = mm1k:stop().

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
