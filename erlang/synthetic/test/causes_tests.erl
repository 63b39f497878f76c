%%% Runs with the dyntrace in beamscope/test/listening, so that spans are traced.
-module(causes_tests).
-include_lib("eunit/include/eunit.hrl").

-define(MS, 1_000_000).

%% Each scenario takes at least the configured time, and leaves nothing behind.
scenario_test_() ->
    [{atom_to_list(Scenario),
      fun() ->
              Before = {lists:sort(registered()), erlang:system_info(schedulers_online)},
              From = erlang:monotonic_time(nanosecond),
              Result = causes:run(Scenario, #{spans => 3, cause => takes(Scenario), work => 1, messages => 4, seq_trace => SeqTrace}),
              To = erlang:monotonic_time(nanosecond),
              #{spans := 3, each := Each, duration := Duration, cause := Cause} = Result,
              ?assertEqual({Duration, Cause}, {lists:sum([D || {_, D, _} <- Each]), lists:sum([C || {_, _, C} <- Each])}),
              [begin
                   ?assert(Id > 0),
                   ?assert(D >= 1 * ?MS),
                   ?assert(C >= at_least(Scenario)),
                   %% The waiting time of the thread is read slightly later than the clock.
                   ?assert(C =< D orelse Scenario =:= overload)
               end || {Id, D, C} <- Each],
              ?assert(Duration =< To - From),
              ?assertEqual(Before, {lists:sort(registered()), erlang:system_info(schedulers_online)})
      end}
     || Scenario <- causes:scenarios(), SeqTrace <- [false, true]].

%% The time of a cause in ms, and the part of it that must be measured, in ns. Some causes
%% begin before the measurement. The rest of these depends on scheduling, so they take ten
%% times as long as the others. Then enough remains even on a busy machine.
takes(Scenario) ->
    case begins_before(Scenario) of true -> 100; false -> 10 end.

at_least(overload) -> 0; % other processes may run on other schedulers
at_least(table_lock) -> 0; % a thread that waits for a lock may keep running
at_least(persistent_term) -> 0; % the native function begins before the measurement
at_least(code) -> 0;
at_least(_) -> 10 * ?MS.

begins_before(Scenario) ->
    lists:member(Scenario, [port_busy, mailbox, busy_server, lock, handed_over, suspended_server, requested, port_answer, checkout]).

defaults_test() ->
    #{pid := Pid, spans := 1, each := [{_, Duration, Cause}], duration := Duration, cause := Cause} =
        causes:run(sleep, #{}),
    ?assertNot(is_process_alive(Pid)).

failure_test() ->
    ?assertError({_, _}, causes:run(no_such_scenario, #{})).

%% Waiting processes get the lock in the order of their requests.
lock_test() ->
    Lock = cause_lock:start_link(a_lock),
    ok = cause_lock:acquire(Lock, 1000),
    Self = self(),
    Waiters = [begin
                   Pid = spawn_link(fun() -> ok = cause_lock:acquire(Lock, 10_000), Self ! {has, N},
                                             receive go -> cause_lock:release(Lock) end end),
                   until_blocked(Lock, N),
                   Pid
               end || N <- [1, 2, 3]],
    [begin
         cause_lock:release(Lock), % releases our own first lock
         receive {has, N} -> ok end
     end || N <- [1]],
    lists:foldl(fun(Waiter, N) -> Waiter ! go, N =:= 4 orelse receive {has, N} -> ok end, N + 1 end, 2, Waiters),
    ok = cause_lock:acquire(Lock, 10_000),
    cause_others:stop(Lock).

until_blocked(Lock, N) ->
    case sys:get_state(Lock) of
        {held, Waiting} ->
            queue:len(Waiting) =:= N orelse begin erlang:yield(), until_blocked(Lock, N) end
    end.
