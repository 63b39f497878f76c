-module(synthetic_source_tests).
-include_lib("eunit/include/eunit.hrl").

-define(MS, 1_000_000).
-define(SECOND, 1_000_000_000).

%% The schedule is pure, so the test simulates an hour of arrivals quickly, with the irregular
%% steps of a real timer.
arrivals(Rate, Until) ->
    arrivals(synthetic_source:new(Rate, 42, 0), 0, Until, rand:seed_s(exsss, 7), []).

arrivals(_, Now, Until, _, Counts) when Now >= Until -> Counts;
arrivals(Schedule0, Now, Until, Random0, Counts) ->
    {Count, Schedule} = synthetic_source:due(Schedule0, Now),
    {Late, Random} = rand:uniform_s(2 * ?MS, Random0),
    Next = Now + synthetic_source:wait(Schedule, Now) * ?MS + Late,
    arrivals(Schedule, Next, Until, Random, [Count | Counts]).

%% If N arrivals are expected in T, their variance is N. The count must be within five standard
%% deviations. It is the same in every run, because the seed is fixed.
rate_holds_test_() ->
    [?_test(begin
                N = lists:sum(arrivals(Rate, 600 * ?SECOND)),
                Mean = Rate * 600,
                ?assert(abs(N - Mean) < 5 * math:sqrt(Mean))
            end) || Rate <- [0.5, 10, 500, 5000]].

no_drift_test() ->
    S0 = synthetic_source:new(1000, 1, 0),
    {N1, S1} = synthetic_source:due(S0, ?SECOND div 2),
    {N2, _} = synthetic_source:due(S1, ?SECOND),
    {N, _} = synthetic_source:due(S0, ?SECOND),
    ?assertEqual(N, N1 + N2).

long_sleep_is_skipped_test() ->
    S0 = synthetic_source:new(1000, 1, 0),
    {0, S} = synthetic_source:due(S0, 3600 * ?SECOND),
    {N, _} = synthetic_source:due(S, 3600 * ?SECOND + 100 * ?MS),
    ?assert(N > 0 andalso N < 200).

rate_zero_test() ->
    S0 = synthetic_source:new(0, 1, 0),
    ?assertEqual(infinity, synthetic_source:wait(S0, 0)),
    ?assertMatch({0, _}, synthetic_source:due(S0, ?SECOND)),
    S = synthetic_source:set_rate(S0, 1000, ?SECOND),
    ?assert(is_integer(synthetic_source:wait(S, ?SECOND))).

wait_rounds_up_test() ->
    S = synthetic_source:new(1000, 1, 0),
    Wait = synthetic_source:wait(S, 0),
    ?assertMatch({0, _}, synthetic_source:due(S, (Wait - 1) * ?MS)),
    ?assertMatch({N, _} when N > 0, synthetic_source:due(S, Wait * ?MS)).
