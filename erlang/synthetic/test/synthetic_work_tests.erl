-module(synthetic_work_tests).
-include_lib("eunit/include/eunit.hrl").

exponential_test() ->
    {Xs, _} = lists:mapfoldl(fun(_, R) -> synthetic_work:exponential(R) end, synthetic_work:seed(1), lists:seq(1, 100_000)),
    Mean = lists:sum(Xs) / 100_000,
    Variance = lists:sum([(X - Mean) * (X - Mean) || X <- Xs]) / 100_000,
    ?assert(abs(Mean - 1) < 0.02),
    ?assert(abs(Variance - 1) < 0.05),
    %% The quantiles follow from P(X > t) = exp(-t).
    [?assert(abs(length([X || X <- Xs, X > T]) / 100_000 - math:exp(-T)) < 0.01) || T <- [0.1, 0.7, 2, 4]].

seeds_test() ->
    {A, _} = synthetic_work:exponential(synthetic_work:seed({1, 2})),
    {A, _} = synthetic_work:exponential(synthetic_work:seed({1, 2})),
    {B, _} = synthetic_work:exponential(synthetic_work:seed({1, 3})),
    ?assertNotEqual(A, B).

%% The message of a timer has no token, and does not remove the process's token.
wait_keeps_token_test() ->
    Wait = fun() -> synthetic_work:wait(erlang:monotonic_time(nanosecond) + 3_000_000), seq_trace:get_token(label) end,
    ?assertEqual([], Wait()),
    _ = seq_trace:set_token(label, 17),
    ?assertEqual({label, 17}, Wait()),
    seq_trace:set_token([]).

busy_and_timed_test() ->
    ?assert(synthetic_work:timed(fun() -> synthetic_work:busy(1_000_000) end) >= 1_000_000).
