%%% @doc Makes the VM perform the actions that its probes report, to test which probes really
%%% fire.
%%%
%%% A scenario is first prepared. Then it fires user_trace probe 1 as a mark, runs, and fires
%%% probe 2 as a second mark. Probes that fire between the marks belong to the scenario, or to
%%% unrelated activity at the same time. A function returns when everything that it started has
%%% ended, as far as it can know. An action happens exactly `Times' times, unless the comment
%%% says otherwise.
-module(vm_events).

-behaviour(gen_server).

-export([run/2, run/3, join/1]).
-export([echo/0, count_ended/2, woken/1, identity/1, init/1, handle_call/3, handle_cast/2]). % for internal use

-export_type([scenario/0]).

-type scenario() ::
    %% Messages: Times to a process, and as many back.
    messages | messages_by_name | priority_messages |
    gen_server_calls | % one request and one reply each
    timers | % one message each
    port_messages | % one byte to an external program and back each
    %% The heap of a process.
    minor_gcs | major_gcs | heap_sizes |
    %% Processes.
    processes | % processes that exit
    exit_signals | hibernations | server_hibernations | monitors |
    suspensions | % one of a waiting process each
    yields | % at least Times
    dirty_nifs | clean_nifs |
    %% Calls that the compiler cannot know.
    applies | applied_funs |
    copies | % copies of a term into a table
    copies_to_processes |
    %% Ports and drivers.
    sockets | % sockets that are opened and closed
    socket_controls | port_owners | port_commands | port_floods | datagrams |
    accept_timeouts | acceptors | % processes that exit; one port each
    drivers | % drivers that are loaded and unloaded
    standard_errors | % lines
    %% Another node: the peer.
    remote_messages | % to a process, as many to a name, and one back
    remote_links | % links that break
    connections | % connections that are opened and closed
    remote_floods |
    %% dyntrace.
    user_traces | % each number once, for any value of Times
    user_traces_i4s4 | user_traces_s1.

-define(WATCHED, vm_events_echo). % registered if a scenario needs it

-define(PATIENCE, 10_000). % ms

%% @equiv run(Scenario, Times, node())
-spec run(scenario(), Times :: pos_integer()) -> ok.
run(Scenario, Times) ->
    run(Scenario, Times, node()).

%% @doc Carries out a scenario. Only the scenarios about another node need a node.
-spec run(scenario(), Times :: pos_integer(), Peer :: node()) -> ok.
run(Scenario, Times, Peer) ->
    {Work, Tidy} = prepare(Scenario, Times, Peer),
    try
        until(fun settled/0),
        mark(1),
        _ = Work(),
        mark(2)
    after
        Tidy()
    end.

%% @doc Connects to another node.
-spec join(node()) -> ok.
join(Peer) ->
    case net_kernel:connect_node(Peer) of
        true -> ok;
        _ -> throw({cannot_connect, Peer})
    end.

%% Each clause returns the function to run between the marks, and the function that cleans up.

prepare(messages, Times, _) ->
    Echo = spawn_link(fun echo/0),
    {fun() -> times(Times, fun() -> ping(Echo) end) end, stopping(Echo)};
prepare(messages_by_name, Times, _) ->
    Echo = spawn_link(fun echo/0),
    true = register(?WATCHED, Echo),
    {fun() -> times(Times, fun() -> ping(?WATCHED) end) end, stopping(Echo)};
prepare(priority_messages, Times, _) ->
    Echo = spawn_link(fun echo/0),
    {fun() ->
             times(Times, fun() ->
                                  ok = erlang:send(Echo, {ping, self()}, [priority]),
                                  receive pong -> ok after ?PATIENCE -> throw(no_pong) end
                          end)
     end, stopping(Echo)};
prepare(gen_server_calls, Times, _) ->
    {ok, Server} = gen_server:start_link(?MODULE, [], []),
    {fun() -> times(Times, fun() -> pong = gen_server:call(Server, ping, ?PATIENCE) end) end, stopping(Server)};
prepare(timers, Times, _) ->
    {fun() ->
             times(Times, fun() -> erlang:send_after(0, self(), tick) end),
             times(Times, fun() -> receive tick -> ok after ?PATIENCE -> throw(no_tick) end end)
     end, nothing()};
prepare(port_messages, Times, _) ->
    Port = open_cat(),
    {fun() ->
             times(Times, fun() ->
                                  true = erlang:port_command(Port, "x"),
                                  receive {Port, {data, _}} -> ok after ?PATIENCE -> throw(no_answer) end
                          end)
     end, closing(Port)};

prepare(minor_gcs, Times, _) ->
    {in_process(fun() -> times(Times, fun() -> erlang:garbage_collect(self(), [{type, minor}]) end) end), nothing()};
prepare(major_gcs, Times, _) ->
    {in_process(fun() -> times(Times, fun() -> erlang:garbage_collect() end) end), nothing()};
prepare(heap_sizes, Times, _) ->
    {fun() ->
             await(spawn_monitor(fun() ->
                                         times(Times, fun() ->
                                                              _ = length(lists:seq(1, 200_000)),
                                                              erlang:garbage_collect()
                                                      end)
                                 end))
     end, nothing()};

prepare(processes, Times, _) ->
    {fun() -> times(Times, fun() -> await(spawn_monitor(fun() -> ok end)) end) end, nothing()};
prepare(exit_signals, Times, _) ->
    Victims = [spawn(fun echo/0) || _ <- lists:seq(1, Times)],
    {fun() ->
             lists:foreach(fun(Victim) ->
                                   Monitor = monitor(process, Victim),
                                   exit(Victim, enough),
                                   await({Victim, Monitor})
                           end, Victims)
     end, nothing()};
prepare(hibernations, Times, _) ->
    Self = self(),
    Sleepers = [spawn_link(fun() -> receive sleep -> erlang:hibernate(?MODULE, woken, [Self]) end end)
                || _ <- lists:seq(1, Times)],
    {fun() ->
             lists:foreach(fun(Sleeper) ->
                                   Sleeper ! sleep,
                                   Sleeper ! wake,
                                   receive {woken, Sleeper} -> ok after ?PATIENCE -> throw(asleep) end
                           end, Sleepers)
     end, nothing()};
prepare(server_hibernations, Times, _) ->
    {ok, Server} = gen_server:start_link(?MODULE, [], []),
    {fun() ->
             times(Times, fun() -> asleep = gen_server:call(Server, sleep, ?PATIENCE) end),
             pong = gen_server:call(Server, ping, ?PATIENCE) % the server has slept before it answers
     end, stopping(Server)};
prepare(monitors, Times, _) ->
    Other = spawn_link(fun echo/0),
    {fun() -> times(Times, fun() -> demonitor(monitor(process, Other)) end) end, stopping(Other)};
prepare(suspensions, Times, _) ->
    Other = spawn_link(fun echo/0),
    {fun() ->
             times(Times, fun() ->
                                  true = erlang:suspend_process(Other),
                                  true = erlang:resume_process(Other),
                                  ping(Other) % after it has been resumed
                          end)
     end, stopping(Other)};
prepare(yields, Times, _) ->
    {fun() -> times(Times, fun() -> erlang:yield() end) end, nothing()};
prepare(dirty_nifs, Times, _) ->
    {ok, File} = file:open(code:which(?MODULE), [read, raw]),
    {fun() -> times(Times, fun() -> {ok, _} = file:pread(File, 0, 1) end) end,
     fun() -> file:close(File) end};
prepare(clean_nifs, Times, _) ->
    {fun() -> times(Times, fun() -> true = dyntrace:available() end) end, nothing()};

prepare(applies, Times, _) ->
    {fun() -> times(Times, fun() -> apply(later(?MODULE), later(identity), later([x])) end) end, nothing()};
prepare(applied_funs, Times, _) ->
    Fun = later(fun(X) -> X end),
    {fun() -> times(Times, fun() -> apply(Fun, later([x])) end) end, nothing()};
prepare(copies, Times, _) ->
    Table = ets:new(?MODULE, [private]),
    {fun() -> times(Times, fun() -> ets:insert(Table, {key, later({x})}) end) end,
     fun() -> ets:delete(Table) end};
prepare(copies_to_processes, Times, _) ->
    Traced = {?MODULE, identity, 1},
    {fun() ->
             1 = erlang:trace_pattern(Traced, [{'_', [], [{message, {const, later("traced")}}]}], [local]),
             times(Times, fun() -> {match_spec, [_ | _]} = erlang:trace_info(Traced, match_spec) end)
     end,
     fun() -> erlang:trace_pattern(Traced, false, [local]) end};

prepare(sockets, Times, _) ->
    {fun() ->
             times(Times, fun() ->
                                  {ok, Socket} = gen_udp:open(0, [inet, {ip, loopback}]),
                                  ok = gen_udp:close(Socket)
                          end)
     end, nothing()};
prepare(socket_controls, Times, _) ->
    {ok, Socket} = gen_udp:open(0, [inet, {ip, loopback}]),
    {fun() -> times(Times, fun() -> {ok, _} = inet:getopts(Socket, [active]) end) end,
     fun() -> gen_udp:close(Socket) end};
prepare(port_owners, Times, _) ->
    Port = open_cat(),
    {fun() -> times(Times, fun() -> erlang:port_connect(Port, self()) end) end, closing(Port)};
prepare(port_commands, Times, _) ->
    Port = open_cat(),
    {fun() ->
             times(Times, fun() ->
                                  Port ! {self(), {command, "x"}},
                                  receive {Port, {data, _}} -> ok after ?PATIENCE -> throw(no_answer) end
                          end)
     end, closing(Port)};
prepare(port_floods, Times, _) ->
    {fun() -> times(Times, fun flood/0) end, nothing()};
prepare(datagrams, Times, _) ->
    {ok, Socket} = gen_udp:open(0, [inet, {ip, loopback}, {active, false}]),
    {ok, Number} = inet:port(Socket),
    {fun() -> times(Times, fun() -> ok = gen_udp:send(Socket, {127, 0, 0, 1}, Number, "x") end) end,
     fun() -> gen_udp:close(Socket) end};
prepare(accept_timeouts, Times, _) ->
    {ok, Listener} = listen(),
    {fun() -> times(Times, fun() -> {error, timeout} = gen_tcp:accept(Listener, 1) end) end,
     fun() -> gen_tcp:close(Listener) end};
prepare(acceptors, Times, _) ->
    {fun() -> times(Times, fun abandon/0) end, nothing()};
prepare(drivers, Times, _) ->
    Path = filename:join(code:priv_dir(runtime_tools), "lib"),
    {fun() ->
             times(Times, fun() ->
                                  ok = erl_ddll:load(Path, "trace_file_drv"),
                                  unload("trace_file_drv")
                          end)
     end, nothing()};
prepare(standard_errors, Times, _) ->
    Port = open_port({fd, 2, 2}, [out, binary]),
    {fun() ->
             times(Times, fun() ->
                                  true = erlang:port_command(Port, "a line that fires a probe\n"),
                                  until(fun() -> erlang:port_info(Port, queue_size) =:= {queue_size, 0} end)
                          end)
     end, closing(Port)};

prepare(remote_messages, Times, Peer) ->
    Echo = spawn_link(Peer, ?MODULE, echo, []),
    true = erpc:call(Peer, erlang, register, [?WATCHED, Echo], ?PATIENCE),
    {fun() ->
             times(Times, fun() -> Echo ! ignored end),
             times(Times, fun() -> {?WATCHED, Peer} ! ignored end),
             ping(Echo)
     end, stopping(Echo)};
prepare(remote_links, Times, Peer) ->
    Counter = spawn(Peer, ?MODULE, count_ended, [self(), Times]),
    await_word(Counter, ready),
    Nobody = fun() -> link(Counter), receive stop -> exit(enough) end end,
    Far = [spawn(Nobody) || _ <- lists:seq(1, Times)],
    {fun() ->
             lists:foreach(fun(Pid) -> Pid ! stop end, Far),
             %% A process may have notified its monitors before its links.
             await_word(Counter, alone)
     end, fun() -> exit(Counter, kill) end};
prepare(connections, Times, Peer) ->
    {fun() ->
             times(Times, fun() ->
                                  true = erlang:monitor_node(Peer, true),
                                  true = erlang:disconnect_node(Peer),
                                  receive {nodedown, Peer} -> ok after ?PATIENCE -> throw(still_there) end,
                                  join(Peer)
                          end)
     end, nothing()};
prepare(remote_floods, Times, Peer) ->
    Echo = spawn_link(Peer, ?MODULE, echo, []),
    Much = {binary:copy(<<"x">>, 8_000_000)},
    {fun() -> times(Times, fun() -> Echo ! Much, ping(Echo) end) end, stopping(Echo)};

prepare(user_traces, _, _) -> % two of them are the marks
    {fun() -> lists:foreach(fun(N) -> true = dyntrace:pn(N) end, [0 | lists:seq(3, 950)]) end, nothing()};
prepare(user_traces_i4s4, Times, _) ->
    {fun() -> times(Times, fun() -> true = dyntrace:p(1, "text") end) end, nothing()};
prepare(user_traces_s1, Times, _) ->
    {fun() -> times(Times, fun() -> true = dyntrace:user_trace_s1("text") end) end, nothing()}.

%% Helpers of scenarios.

%% Fires a probe. A VM that was built without probes may not even have loaded dyntrace.
mark(Number) ->
    try dyntrace:pn(Number) of _ -> ok
    catch error:_ -> ok
    end.

times(0, _Do) -> ok;
times(N, Do) -> _ = Do(), times(N - 1, Do).

nothing() -> fun() -> ok end.

%% Returns its argument, in a way that the compiler cannot see.
later(Term) -> binary_to_term(term_to_binary(Term)).

%% @private
-spec identity(Term) -> Term.
identity(Term) -> Term.

%% @private Answers pings until it is stopped.
-spec echo() -> ok.
echo() ->
    receive
        {ping, From} -> From ! pong, echo();
        stop -> ok;
        _ -> echo()
    end.

ping(To) ->
    To ! {ping, self()},
    receive pong -> ok after ?PATIENCE -> throw(no_pong) end.

%% @private Sends a message when it is ready, and another when the given number of linked
%% processes have ended.
-spec count_ended(pid(), Times :: pos_integer()) -> ok.
count_ended(Parent, Times) ->
    process_flag(trap_exit, true),
    Parent ! {self(), ready},
    times(Times, fun() -> receive {'EXIT', _, _} -> ok end end),
    Parent ! {self(), alone},
    ok.

await_word(From, Word) ->
    receive {From, Word} -> ok after ?PATIENCE -> throw({no_word, Word}) end.

%% Stops a linked process, and returns when it has ended.
stopping(Pid) ->
    fun() ->
            unlink(Pid),
            Monitor = monitor(process, Pid),
            exit(Pid, kill),
            await({Pid, Monitor})
    end.

await({Pid, Monitor}) ->
    receive {'DOWN', Monitor, process, Pid, _} -> ok after ?PATIENCE -> throw(still_alive) end.

%% Runs a function in a process with its own heap, so that other processes do not disturb it.
in_process(Do) ->
    Self = self(),
    {Pid, Monitor} = spawn_opt(fun() -> receive go -> Do(), Self ! done, receive after infinity -> ok end end end,
                               [monitor, {min_heap_size, 100_000}]),
    fun() ->
            Pid ! go,
            receive done -> ok after ?PATIENCE -> throw(not_done) end,
            exit(Pid, kill),
            await({Pid, Monitor})
    end.

%% @private
-spec woken(pid()) -> ok.
woken(Parent) ->
    receive wake -> Parent ! {woken, self()}, ok end.

open_cat() ->
    open_port({spawn_executable, os:find_executable("cat")}, [binary, use_stdio]).

closing(Port) ->
    fun() -> erlang:port_close(Port) end.

listen() ->
    listen([]).

listen(Options) ->
    gen_tcp:listen(0, [{inet_backend, inet}, inet, {ip, loopback}, {active, false}, binary | Options]).

%% Writes to a socket without a reader until its port is busy, reads everything, and closes the
%% socket while data is queued again.
flood() ->
    {ok, Listener} = listen([{recbuf, 8192}]),
    {ok, Number} = inet:port(Listener),
    {ok, Out} = gen_tcp:connect({127, 0, 0, 1}, Number,
                                [{inet_backend, inet}, inet, {active, false}, binary, {send_timeout, ?PATIENCE}, {sndbuf, 8192}]),
    {ok, In} = gen_tcp:accept(Listener, ?PATIENCE),
    Much = binary:copy(<<"x">>, 1_000_000), % larger than all buffers of the operating system
    {_, Writer} = spawn_monitor(fun() -> ok = gen_tcp:send(Out, Much), ok = gen_tcp:send(Out, <<"end">>) end),
    until(fun() -> erlang:port_info(Out, queue_size) =/= {queue_size, 0} end),
    {ok, _} = gen_tcp:recv(In, byte_size(Much) + 3, ?PATIENCE),
    receive {'DOWN', Writer, _, _, normal} -> ok after ?PATIENCE -> throw(still_writing) end,
    ok = gen_tcp:send(Out, Much), % goes only into the queue of the port
    true = erlang:port_close(Out),
    ok = gen_tcp:close(In), % the queued data can no longer be delivered
    until(fun() -> erlang:port_info(Out) =:= undefined end),
    ok = gen_tcp:close(Listener).

%% A process that waits for a connection is killed.
abandon() ->
    {ok, Listener} = listen(),
    {Pid, Monitor} = spawn_monitor(fun() -> gen_tcp:accept(Listener) end),
    until(fun() -> erlang:port_info(Listener, monitors) =:= {monitors, [{process, Pid}]} end),
    exit(Pid, kill),
    await({Pid, Monitor}),
    until(fun() -> erlang:port_info(Listener, monitors) =:= {monitors, []} end),
    ok = gen_tcp:close(Listener).

%% Unloads a driver, and returns when that is complete.
unload(Driver) ->
    case erl_ddll:try_unload(Driver, [{monitor, pending}]) of
        {ok, unloaded} -> ok;
        {ok, _, Monitor} -> receive {'DOWN', Monitor, driver, _, unloaded} -> ok after ?PATIENCE -> throw(still_loaded) end
    end.

%% Returns whether all other processes are idle. Since OTP 26, several processes are involved
%% in reading the next line of standard input.
settled() ->
    lists:all(fun(Pid) -> Pid =:= self() orelse waits(process_info(Pid, [status, message_queue_len])) end, processes()).

waits([{status, Status}, {message_queue_len, Length}]) -> Length =:= 0 andalso (Status =:= waiting orelse Status =:= suspended);
waits(undefined) -> true.

until(Holds) ->
    Holds() orelse begin erlang:yield(), until(Holds) end.

%% @private
-spec init([]) -> {ok, []}.
init([]) -> {ok, []}.

%% @private
-spec handle_call(ping | sleep, gen_server:from(), []) -> {reply, pong, []} | {reply, asleep, [], hibernate}.
handle_call(ping, _From, []) -> {reply, pong, []};
handle_call(sleep, _From, []) -> {reply, asleep, [], hibernate}.

%% @private
-spec handle_cast(term(), []) -> {noreply, []}.
handle_cast(_, []) -> {noreply, []}.
