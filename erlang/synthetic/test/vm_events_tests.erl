-module(vm_events_tests).

-include_lib("eunit/include/eunit.hrl").

%% The scenarios about this node, except user_trace. Its probes return true only if a tracer is
%% attached to them.
local() ->
    [messages, messages_by_name, gen_server_calls, timers, port_messages,
     minor_gcs, major_gcs, heap_sizes,
     processes, exit_signals, hibernations, monitors, yields, dirty_nifs, clean_nifs,
     applies, applied_funs, copies, copies_to_processes,
     sockets, socket_controls, port_owners, port_commands, port_floods, datagrams,
     accept_timeouts, acceptors, drivers].

%% Each scenario can run again, and leaves nothing behind.
scenarios_test_() ->
    [{atom_to_list(Scenario),
      fun() ->
              ok = vm_events:run(Scenario, 2), % loaded modules remain
              Before = what_there_is(),
              ok = vm_events:run(Scenario, 3),
              ?assertEqual(Before, what_there_is())
      end} || Scenario <- local()].

what_there_is() ->
    {lists:sort(erlang:ports()), lists:sort(registered()), length(ets:all()), process_info(self(), [messages, links, monitors])}.

no_such_scenario_test() ->
    ?assertError(function_clause, vm_events:run(no_such_scenario, 1)).

no_peer_test() ->
    ?assertThrow({cannot_connect, 'nobody@nowhere'}, vm_events:join('nobody@nowhere')).
