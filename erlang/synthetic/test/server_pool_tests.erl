%%% Runs with the dyntrace in beamscope/test/listening, so that spans are traced.
-module(server_pool_tests).
-include_lib("eunit/include/eunit.hrl").

%% The pool never lends more workers than it has. Waiting clients get them in order.
lends_in_order_test() ->
    Self = self(),
    Pool = pool:start_link([Self, Self]),
    Clients = [begin
                   Client = spawn_link(fun() -> Worker = pool:check_out(Pool, 10_000), Self ! {has, N, Worker},
                                                receive go -> ok = pool:check_in(Pool, Worker) end
                                       end),
                   until_queued(Pool, N),
                   Client
               end || N <- [1, 2, 3, 4]],
    [receive {has, N, Self} -> ok end || N <- [1, 2]],
    receive {has, _, _} -> error(too_many) after 0 -> ok end,
    [begin lists:nth(N, Clients) ! go, receive {has, Next, Self} -> ?assertEqual(N + 2, Next) end end || N <- [1, 2]],
    cause_others:stop(Pool).

until_queued(Pool, N) ->
    {state, Free, Waiting} = sys:get_state(Pool),
    2 - length(Free) + queue:len(Waiting) =:= N orelse begin erlang:yield(), until_queued(Pool, N) end.

%% With and without tokens, every request is done and nothing is left behind.
balance_test_() ->
    [?_test(begin
                {ok, Pid} = server_pool:start_link(#{rate => 5000, loops => 10, delay => Delay, seq_trace => SeqTrace,
                                                     clients => 3, workers => 2, seed => 1}),
                until(fun(#{done := Done}) -> Done >= 100 end),
                ok = server_pool:set(loops, 20),
                ok = server_pool:set(delay, 0),
                ok = server_pool:set(rate, 0),
                until(fun(#{sent := Sent, done := Done}) -> Sent =:= Done end),
                ?assertMatch(#{loops := 20, delay := 0, clients := 3, workers := 2}, server_pool:info()),
                ?assertEqual({error, {fixed, workers}}, server_pool:set(workers, 3)),
                ?assertEqual({error, {bad_option, workers, 0}}, server_pool:set(workers, 0)),
                {links, Parts} = process_info(Pid, links),
                Monitors = [monitor(process, Part) || Part <- Parts, Part =/= self()],
                ?assertEqual(1 + 1 + 3 + 2, length(Monitors)), % source, pool, clients and workers
                ok = server_pool:stop(),
                [receive {'DOWN', Monitor, process, _, _} -> ok end || Monitor <- Monitors]
            end)
     || SeqTrace <- [false, true], Delay <- [0, 0.1]].

until(Condition) ->
    Condition(server_pool:info()) orelse begin erlang:yield(), until(Condition) end.
