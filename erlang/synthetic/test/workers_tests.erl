%%% Runs with the dyntrace in beamscope/test/listening, so that spans are traced.
-module(workers_tests).
-include_lib("eunit/include/eunit.hrl").

%% A delay so long that no request is done during a test.
-define(NEVER, 60_000).

run(Options, Test) ->
    {ok, _} = workers:start_link(maps:merge(#{rate => 2000, delay => 0, seed => 1}, Options)),
    Test(),
    ok = workers:stop().

%% With `join => first', either worker is enough.
first_test_() ->
    [?_test(run(#{join => first, Slow => ?NEVER},
                fun() ->
                        until(fun(#{done := Done}) -> Done >= 20 end),
                        ?assertMatch(#{Other := 0}, workers:info())
                end))
     || {Slow, Other} <- [{slow_1, done_1}, {slow_2, done_2}]].

%% With `join => all', both are needed.
all_test_() ->
    [?_test(run(#{join => all, Slow => ?NEVER},
                fun() ->
                        until(fun(#{Other := Done}) -> Done >= 20 end),
                        ?assertMatch(#{done := 0}, workers:info()),
                        ok = workers:set(Slow, 0),
                        until(fun(#{done := Done}) -> Done >= 20 end)
                end))
     || {Slow, Other} <- [{slow_1, done_2}, {slow_2, done_1}]].

%% Each request is counted once, and the slower worker finishes too.
balance_test_() ->
    [?_test(run(#{join => Join, delay => 0.5, slow_2 => 2},
                fun() ->
                        [all_of(Count, 100) || Count <- [done, done_1, done_2]],
                        #{sent := Sent} = Info = workers:info(),
                        ?assertMatch(#{done := Sent, done_1 := Sent, done_2 := Sent}, Info)
                end))
     || Join <- [first, all]].

%% One process starts the three spans of a request. The last worker that is needed ends its own
%% span and the probe's, and any other worker only its own.
spans_test_() ->
    [?_test(begin
                {Starts, Ends} = traced(fun() -> run(#{join => Join, slow_2 => ?NEVER}, fun() -> all_of(Count, 20) end) end),
                ?assertEqual([[<<"worker_1">>, <<"worker_2">>, <<"probe">>]], lists:usort(Starts)),
                ?assertEqual([Expected], lists:usort(Ends))
            end)
     || {Join, Count, Expected} <- [{first, done, [<<"worker_1">>, <<"probe">>]},
                                    {all, done_1, [<<"worker_1">>]}]].

%% Waits until all requests that will come, at least the given number, are counted.
all_of(Count, N) ->
    until(fun(#{Count := Done}) -> Done >= N end),
    ok = workers:set(rate, 0),
    until(fun(#{sent := Sent, Count := Done}) -> Done =:= Sent end).

%% Returns the names of the spans as they are started, in groups of three, and as they are
%% ended, by process.
traced(Run) ->
    _ = erlang:trace(new_processes, true, [call]),
    _ = erlang:trace_pattern({dyntrace, pn, 7}, true, []),
    Run(),
    _ = erlang:trace(all, false, [call]),
    Delivered = erlang:trace_delivered(all),
    receive {trace_delivered, all, Delivered} -> ok end,
    Hits = hits(),
    Ends = maps:groups_from_list(fun({Pid, _, _}) -> Pid end, [Hit || {_, 2, _} = Hit <- Hits]),
    {threes([Name || {_, 1, Name} <- Hits]), [[Name || {_, _, Name} <- Group] || Group <- maps:values(Ends)]}.

hits() ->
    receive
        {trace, Pid, call, {dyntrace, pn, [_, _, Kind, _, _, Name, _]}} -> [{Pid, Kind, Name} | hits()]
    after 0 ->
        []
    end.

threes([A, B, C | Rest]) -> [[A, B, C] | threes(Rest)];
threes([]) -> [].

set_test() ->
    run(#{rate => 0},
        fun() ->
                [?assertEqual(ok, workers:set(Key, Value))
                 || {Key, Value} <- [{rate, 0.5}, {delay, 1.5}, {slow_1, 0.25}, {slow_2, 20}]],
                ?assertMatch(#{join := first, rate := 0.5, delay := 1.5, slow_1 := 0.25, slow_2 := 20, seed := 1},
                             workers:info()),
                [?assertEqual({error, Why}, workers:set(Key, Value))
                 || {Key, Value, Why} <- [{slow_1, -1, {bad_option, slow_1, -1}},
                                          {delay, 60_001, {bad_option, delay, 60_001}},
                                          {join, none, {bad_option, join, none}},
                                          {join, all, {fixed, join}},
                                          {seed, 2, {fixed, seed}}]]
        end).

until(Condition) ->
    Condition(workers:info()) orelse begin erlang:yield(), until(Condition) end.
