%%% @doc Spans with a known history: each function defines what happens to the processes
%%% involved. Tests compare recordings with that history.
%%%
%%% Spans have the name `load' by default. Each function returns the processes and ports that
%%% it used, in the order of its type.
-module(vm_spans).
-behaviour(gen_server).

-export([story/1, congestion/0, nested/1, chain/1, crowd/1, tokens/1, contention/1, neighbour/1, pairs/1, suspensions/0, asleep/1, waits/0]).
-export([forever/1]).
-export([init/1, handle_call/3, handle_cast/2]).

-define(NAME, <<"load">>).

%% @doc A process with a span collects its garbage, calls a server, reads from a file and
%% waits. Then it does the same again without a span. The other process does the same just as
%% often, and never has a span.
-spec story(WaitMs :: pos_integer()) -> {Owner :: pid(), Server :: pid(), Other :: pid(), Stranger :: pid()}.
story(Ms) ->
    Server = server(),
    Stranger = server(),
    Owner = prepared(fun(Do) -> spanning(Do), Do() end, Server, Ms),
    Other = prepared(fun(Do) -> Do(), Do() end, Stranger, Ms),
    _ = [Pid ! go || Pid <- [Other, Owner]],
    _ = [receive {Pid, ok} -> ok end || Pid <- [Owner, Other]],
    {Owner, Server, Other, Stranger}.

prepared(How, Server, Ms) ->
    spawner(fun() ->
                    {ok, File} = file:open(code:which(?MODULE), [read, raw]),
                    fun() ->
                            How(fun() ->
                                        true = erlang:garbage_collect(),
                                        ok = gen_server:call(Server, reply, 5000),
                                        {ok, _} = file:pread(File, 0, 1),
                                        receive after Ms -> ok end
                                end)
                    end
            end).

%% @doc A process with a span writes to a busy port, until another program begins to read.
-spec congestion() -> {pid(), Port :: non_neg_integer()}.
congestion() ->
    Pid = spawner(fun() ->
                          Port = open_port({spawn_executable, "/bin/sh"}, [out, {args, ["-c", "sleep 0.2; exec cat >/dev/null"]}]),
                          true = erlang:port_command(Port, binary:copy(<<0>>, 1000000)), % now the queue is full
                          fun() ->
                                  spanning(fun() -> erlang:port_command(Port, <<1>>) end),
                                  Port
                          end
                  end),
    {Pid, number(result(Pid))}.

number(Port) ->
    "#Port<0." ++ Digits = erlang:port_to_list(Port),
    list_to_integer(lists:droplast(Digits)).

%% @doc A process has two nested spans called `brief'. It collects its garbage in both, in the
%% outer one, just after both, and some time later.
-spec nested(Ms :: pos_integer()) -> pid().
nested(Ms) ->
    Pid = spawner(fun() ->
                          fun() ->
                                  Brief = fun(Do) -> beamscope:with_span(<<"brief">>, Do) end,
                                  Brief(fun() -> Brief(fun erlang:garbage_collect/0), erlang:garbage_collect() end),
                                  erlang:garbage_collect(),
                                  receive after Ms -> ok end,
                                  erlang:garbage_collect()
                          end
                  end),
    _ = result(Pid),
    Pid.

%% @doc A process with a span sends a message, which several processes pass on and the last one
%% returns to it. Returns them, the owner of the span first.
-spec chain(Others :: pos_integer()) -> [pid()].
chain(N) ->
    Pid = spawner(fun() ->
                          Self = self(),
                          Chain = links(N, Self, []),
                          fun() ->
                                  spanning(fun() -> hd(Chain) ! pass, receive pass -> ok end end),
                                  [Self | Chain]
                          end
                  end),
    result(Pid).

links(0, _, Chain) -> Chain;
links(N, Next, Chain) ->
    Pid = spawn(fun() -> receive pass -> Next ! pass end end),
    links(N - 1, Pid, [Pid | Chain]).

%% @doc The given number of processes have a span at the same time.
-spec crowd(N :: pos_integer()) -> [pid()].
crowd(N) ->
    Pids = [spawner(fun() -> fun() -> spanning(fun() -> receive leave -> ok end end) end end) || _ <- lists:seq(1, N)],
    _ = [begin Pid ! go, wait(Pid) end || Pid <- Pids],
    _ = [Pid ! leave || Pid <- Pids],
    _ = [receive {Pid, _} -> ok end || Pid <- Pids],
    Pids.

wait(Pid) ->
    case process_info(Pid, [status, message_queue_len]) of
        [{status, waiting}, {message_queue_len, 0}] -> ok;
        _ -> receive after 1 -> wait(Pid) end
    end.

%% @doc A process with a span sets a seq_trace token with the given label, and calls a server.
-spec tokens(Label :: integer()) -> {pid(), Server :: pid()}.
tokens(Label) ->
    {module, _} = code:ensure_loaded(seq_trace),
    Server = server(),
    Pid = spawner(fun() ->
                          fun() ->
                                  spanning(fun() ->
                                                   _ = seq_trace:set_token(label, Label),
                                                   _ = [ok = gen_server:call(Server, reply, 5000) || _ <- [1, 2, 3]],
                                                   seq_trace:set_token([])
                                           end)
                          end
                  end),
    _ = result(Pid),
    {Pid, Server}.

%% @doc A process with a span and one without a span are busy for some time.
-spec contention(Ms :: pos_integer()) -> {pid(), pid()}.
contention(Ms) ->
    Pid = spawner(fun() -> fun() -> spanning(fun() -> busy(Ms) end) end end),
    Other = spawner(fun() -> fun() -> busy(Ms) end end),
    _ = [P ! go || P <- [Pid, Other]],
    _ = [receive {P, _} -> ok end || P <- [Pid, Other]],
    {Pid, Other}.

busy(Ms) -> busy_until(erlang:monotonic_time(millisecond) + Ms, lists:seq(1, 100)).

busy_until(Until, List) ->
    _ = lists:sum(List),
    erlang:monotonic_time(millisecond) >= Until orelse busy_until(Until, List).

%% @doc A process with a span starts another process of high priority, which is busy for some
%% time, and yields to it.
-spec neighbour(Ms :: pos_integer()) -> {pid(), pid()}.
neighbour(Ms) ->
    Other = spawner(fun() ->
                            normal = process_flag(priority, high),
                            fun() -> busy(Ms) end
                    end),
    Pid = spawner(fun() -> fun() -> spanning(fun() -> Other ! go, erlang:yield() end) end end),
    Pid ! go,
    _ = [receive {P, _} -> ok end || P <- [Pid, Other]],
    {Pid, Other}.

%% @doc Two processes send each other the given number of messages, and one of them has a span.
-spec pairs(N :: pos_integer()) -> {pid(), pid()}.
pairs(N) ->
    Pid = spawner(fun() ->
                          Other = spawn(fun() -> echo(N) end),
                          fun() -> spanning(fun() -> ping(N, Other) end), Other end
                  end),
    {Pid, result(Pid)}.

%% @doc A process with a span changes a persistent term. The calling process suspends it twice:
%% while it waits for a message, and while it is runnable. Returns both processes.
-spec suspensions() -> {pid(), Holder :: pid()}.
suspensions() ->
    Pid = spawner(fun() ->
                          fun() ->
                                  spanning(fun() ->
                                                   ok = persistent_term:put(?MODULE, erlang:unique_integer()),
                                                   receive on -> ok end,
                                                   busy(20)
                                           end),
                                  persistent_term:erase(?MODULE)
                          end
                  end),
    Pid ! go,
    wait(Pid),
    true = erlang:suspend_process(Pid),
    true = erlang:resume_process(Pid),
    Pid ! on,
    wait_runnable(Pid),
    true = erlang:suspend_process(Pid),
    true = erlang:resume_process(Pid),
    receive {Pid, _} -> ok end,
    {Pid, self()}.

%% @doc A process with a span calls a native function of the VM that sleeps, and blocks the
%% scheduler's thread.
-spec asleep(Ms :: pos_integer()) -> pid().
asleep(Ms) ->
    _ = erts_debug:set_internal_state(available_internal_state, true),
    Pid = spawner(fun() -> fun() -> spanning(fun() -> erts_debug:set_internal_state(sleep, Ms) end) end end),
    true = result(Pid),
    Pid.

wait_runnable(Pid) ->
    case process_info(Pid, [status, message_queue_len]) of
        [{status, runnable}, {message_queue_len, 0}] -> ok;
        _ -> wait_runnable(Pid)
    end.

echo(0) -> ok;
echo(N) -> receive {ping, From} -> From ! pong, echo(N - 1) end.

ping(0, _) -> ok;
ping(N, Other) -> Other ! {ping, self()}, receive pong -> ping(N - 1, Other) end.

%% @doc A process with a span waits for several things in turn: a time, a message with a
%% timeout, a message without a timeout (`infinity' in a variable), and then messages of a
%% timer, a port, the VM, a monitor and a link, and one that had already arrived. Returns the
%% process, the sender of the messages, the port, the monitored process and the linked process.
-spec waits() -> {pid(), pid(), Port :: non_neg_integer(), pid(), pid()}.
waits() ->
    Pid = spawner(fun() ->
                          false = process_flag(trap_exit, true),
                          Echo = spawn(fun echo/0),
                          Port = open_port({spawn_executable, "/bin/sh"}, [{line, 9}, {args, ["-c", "read x; echo done; read x"]}]),
                          {Monitored, _} = spawn_monitor(fun() -> receive leave -> ok end end),
                          Linked = spawn_link(fun() -> receive leave -> ok end end),
                          fun() ->
                                  spanning(fun() -> waits(Echo, Port, Monitored, Linked) end),
                                  {Echo, number(Port), Monitored, Linked}
                          end
                  end),
    {Echo, Port, Monitored, Linked} = result(Pid),
    {Pid, Echo, Port, Monitored, Linked}.

waits(Echo, Port, Monitored, Linked) ->
    receive after 5 -> ok end,
    Echo ! {self(), 5},
    receive {Echo, 5} -> ok after 10_000 -> error(late) end,
    Echo ! {self(), 5},
    ok = ?MODULE:forever(infinity),
    _ = erlang:send_after(5, self(), timer),
    receive timer -> ok end,
    true = port_command(Port, <<"go\n">>),
    receive {Port, {data, _}} -> ok end,
    _ = erlang:garbage_collect(Echo, [{async, collected}]),
    receive {garbage_collect, collected, _} -> ok end,
    Monitored ! leave,
    receive {'DOWN', _, process, Monitored, _} -> ok end,
    Linked ! leave,
    receive {'EXIT', Linked, _} -> ok end,
    self() ! own,
    receive own -> ok end.

forever(Time) -> receive {_, 5} -> ok after Time -> error(late) end.

echo() ->
    receive {From, Ms} -> receive after Ms -> From ! {self(), Ms} end end,
    echo().

%%% Common helpers

spanning(Do) -> beamscope:with_span(?NAME, Do).

%% Starts a process that prepares its work, and does it on request. Its heap is large enough.
spawner(Prepare) ->
    Self = self(),
    Pid = spawn_opt(fun() ->
                            Do = Prepare(),
                            Self ! {self(), ready},
                            receive go -> ok end,
                            Self ! {self(), Do()}
                    end, [link, {min_heap_size, 100000}]),
    receive {Pid, ready} -> Pid end.

result(Pid) ->
    Pid ! go,
    receive {Pid, Result} -> Result end.

server() ->
    {ok, Server} = gen_server:start(?MODULE, [], []),
    Server.

init([]) -> {ok, none}.

handle_call(reply, _From, State) -> {reply, ok, State}.

handle_cast(_, State) -> {noreply, State}.
