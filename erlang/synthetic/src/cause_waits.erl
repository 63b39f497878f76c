%%% @doc Causes for {@link causes} that are waits. The processes report to {@link truth} what
%%% they do and wait for. Servers are registered as `asked', and servers behind that one as
%%% `asked_2' and so on. `ticker' is a process that sends the process with the span messages
%%% that it does not wait for.
%%%
%%% Times: `sleep_ticked': a sleep, during which a message arrives that is taken afterwards.
%%% `timeout_ticked': a call that times out, with such a message. `timeout_silent': a call that
%%% times out. `timeout_late': a call that times out, but is answered later, during another
%%% call. `pauses': three attempts of a call with a pause after each, and such messages.
%%% `cast_then_sleep': the process sends work to a server and does not wait for it. `polls':
%%% several short sleeps. `timer_ref': the message of a timer, behind other messages.
%%% `forever': a call with the timeout `infinity', which comes from a variable.
%%%
%%% Messages: `reports': a server sends a message just before its answer. `chatter': many
%%% messages arrive during a call. `behind_cast': a call to a server that has to do earlier
%%% work first. `nested': three servers, each of which calls the next. `asleep': a server that
%%% sleeps. `later': a server is idle until a timer makes it answer. `state_timeout': the same
%%% with a state machine. `hibernated': the server hibernates. `requested': the process sends a
%%% request, works, and then waits for the answer. `spawned': a process that is started for
%%% this purpose. `pool': one of two workers, both of which are busy. `file_server': a file
%%% that belongs to another process.
%%%
%%% Signals: `down': the end of a process, noticed by a monitor. `linked': the same by a link.
%%% `server_ends': a server ends before it answers. `collected': another process triggers
%%% garbage collections of the waiting process. `looked_at': another process inspects the
%%% waiting process all the time.
%%%
%%% Elsewhere: `tcp': a message over a connection. `port_answer': the answer of a program.
%%% `table': the process reads a large table. `node': a sleeping server on another node.
%%% `node_timeout': that server does not answer in time. The last two exist only if there is
%%% another node.
-module(cause_waits).

-export([scenarios/0, remote_scenarios/0, prepare/2]).
-export([simple/3, also_do/2]).

-export_type([scenario/0]).

-type scenario() :: sleep_ticked | timeout_ticked | timeout_silent | timeout_late | pauses | cast_then_sleep | polls |
                    timer_ref | forever |
                    reports | chatter | behind_cast | nested | asleep | later | state_timeout | hibernated |
                    requested | spawned | pool | file_server |
                    down | linked | server_ends | collected | looked_at |
                    tcp | port_answer | table |
                    node | node_timeout.

-define(PATIENCE, 60_000). % ms
-define(MS, 1_000_000). % ns

-spec scenarios() -> [scenario()].
scenarios() ->
    [sleep_ticked, timeout_ticked, timeout_silent, timeout_late, pauses, cast_then_sleep, polls, timer_ref, forever,
     reports, chatter, behind_cast, nested, asleep, later, state_timeout, hibernated, requested, spawned, pool, file_server,
     down, linked, server_ends, collected, looked_at,
     tcp, port_answer, table].

-spec remote_scenarios() -> [scenario()].
remote_scenarios() ->
    [node, node_timeout].

-spec prepare(scenario(), causes:config()) -> causes:prepared().

prepare(sleep_ticked, Config) ->
    ticked(Config, fun(Ms) -> truth:sleep(Ms) end);
prepare(timeout_ticked, Config) ->
    Server = truth_server:start(asked),
    Prepared = ticked(Config, fun(Ms) -> truth:call(Server, never, Ms) end),
    also_stop(Prepared, [Server]);
prepare(timeout_silent, Config) ->
    Server = truth_server:start(asked),
    simple(Config, [Server], fun(Ms) -> truth:call(Server, never, Ms) end);
prepare(timeout_late, Config) ->
    Server = truth_server:start(asked),
    Other = truth_server:start(asked_2),
    simple(Config, [Server, Other],
           fun(Ms) ->
                   Half = Ms div 2,
                   truth:call(Server, {sleep, Half + Half div 2}, Half) + truth:call(Other, {sleep, Half}, ?PATIENCE)
           end);
prepare(pauses, Config) ->
    Server = truth_server:start(asked),
    Ticker = ticker(),
    simple(Config, [Server, Ticker],
           fun(Ms) ->
                   Pause = Ms div 3,
                   _ = [Ticker ! {tick, self(), N * Pause + Pause div 2} || N <- [0, 1, 2]],
                   Took = lists:sum([begin
                                         truth:call(Server, {work, ?MS}, ?PATIENCE) + truth:sleep(Pause)
                                     end || _ <- [1, 2, 3]]),
                   _ = [receive tick -> ok end || _ <- [1, 2, 3]],
                   Took
           end);
prepare(cast_then_sleep, Config) ->
    Server = truth_server:start(asked),
    simple(Config, [Server],
           fun(Ms) ->
                   ok = gen_server:cast(Server, {work, 2 * Ms * ?MS}),
                   truth:sleep(Ms)
           end);
prepare(polls, Config) ->
    simple(Config, [], fun(Ms) -> lists:sum([truth:sleep(Ms div 10) || _ <- lists:seq(1, 10)]) end);
prepare(timer_ref, Config) ->
    Ticker = ticker(),
    simple(Config, [Ticker],
           fun(Ms) ->
                   Ticker ! {tick, self(), Ms div 2},
                   Due = truth:now_ns() + Ms * ?MS,
                   Ref = erlang:start_timer(Ms, self(), over),
                   Took = truth:message({timer, none}, fun() -> receive {timeout, Ref, over} -> Due end end),
                   receive tick -> ok end,
                   Took
           end);
prepare(forever, Config) ->
    Server = truth_server:start(asked),
    simple(Config, [Server], fun(Ms) -> truth:call(Server, {work, Ms * ?MS}, infinity) end);

prepare(reports, Config) ->
    Server = truth_server:start(asked),
    simple(Config, [Server],
           fun(Ms) ->
                   Took = truth:call(Server, {report, 4, Ms * ?MS div 4}, ?PATIENCE),
                   _ = [receive {report, N} -> ok end || N <- [1, 2, 3, 4]],
                   Took
           end);
prepare(chatter, Config) ->
    Server = truth_server:start(asked),
    Ticker = ticker(),
    simple(Config, [Server, Ticker],
           fun(Ms) ->
                   _ = [Ticker ! {tick, self(), N * Ms div 50} || N <- lists:seq(1, 49)],
                   Took = truth:call(Server, {work, Ms * ?MS}, ?PATIENCE),
                   _ = [receive tick -> ok end || _ <- lists:seq(1, 49)],
                   Took
           end);
prepare(behind_cast, Config) ->
    Server = truth_server:start(asked),
    simple(Config, [Server],
           fun(Ms) ->
                   ok = gen_server:cast(Server, {work, Ms * ?MS}),
                   truth:call(Server, {work, ?MS}, ?PATIENCE)
           end);
prepare(nested, Config) ->
    [First, Second, Third] = Servers = [truth_server:start(Name) || Name <- [asked, asked_2, asked_3]],
    simple(Config, Servers, fun(Ms) -> truth:call(First, {ask, Second, {ask, Third, {work, Ms * ?MS}}}, ?PATIENCE) end);
prepare(asleep, Config) ->
    Server = truth_server:start(asked),
    simple(Config, [Server], fun(Ms) -> truth:call(Server, {sleep, Ms}, ?PATIENCE) end);
prepare(later, Config) ->
    Server = truth_server:start(asked),
    simple(Config, [Server], fun(Ms) -> truth:call(Server, {later, Ms}, ?PATIENCE) end);
prepare(state_timeout, Config) ->
    Server = truth_statem:start(asked),
    simple(Config, [Server], fun(Ms) -> truth:request(gen_statem, Server, {later, Ms}, ?PATIENCE) end);
prepare(hibernated, Config) ->
    Server = truth_server:start(asked),
    simple(Config, [Server], fun(Ms) -> truth:call(Server, {hibernate, {work, Ms * ?MS}}, ?PATIENCE) end);
prepare(requested, Config) ->
    Server = truth_server:start(asked),
    simple(Config, [Server],
           fun(Ms) ->
                   Request = gen_server:send_request(Server, {work, (Ms + 1) * ?MS}),
                   ok = truth:work(?MS),
                   truth:message({message, Server}, fun() -> {reply, Sent} = gen_server:wait_response(Request, ?PATIENCE), Sent end)
           end);
prepare(spawned, Config) ->
    simple(Config, [],
           fun(Ms) ->
                   Self = self(),
                   Pid = spawn_link(fun() -> ok = truth:work(Ms * ?MS), Self ! {self(), truth:now_ns()} end),
                   truth:message({message, Pid}, fun() -> receive {Pid, Sent} -> Sent end end)
           end);
prepare(pool, #{cause := Cause} = Config) ->
    Workers = [truth_server:start(Name) || Name <- [asked, asked_2]],
    simple(Config, Workers,
           fun(_) ->
                   _ = [gen_server:cast(Worker, {work, Cause}) || Worker <- Workers],
                   truth:call(hd(Workers), {work, ?MS}, ?PATIENCE) % both workers are equal
           end);
prepare(file_server, Config) ->
    Path = filename:join(os:getenv("TMPDIR", "/tmp"), "beamscope_causes_" ++ os:getpid()),
    {ok, File} = file:open(Path, [binary, read, write]),
    Block = binary:copy(<<1>>, 4_194_304),
    Prepared = simple(Config, [],
                      fun(Ms) ->
                              writes(File, Block, Ms * ?MS)
                      end),
    Prepared#{tidy => fun() -> ok = file:close(File), ok = file:delete(Path) end};

prepare(down, Config) ->
    ends(Config, fun(Fun) -> element(1, spawn_monitor(Fun)) end,
         fun(Pid) -> receive {'DOWN', _, process, Pid, {ended, At}} -> At end end);
prepare(linked, Config) ->
    ends(Config, fun(Fun) -> false = process_flag(trap_exit, true), spawn_link(Fun) end,
         fun(Pid) -> receive {'EXIT', Pid, {ended, At}} -> true = process_flag(trap_exit, false), At end end);
prepare(server_ends, #{cause := Cause} = Config) ->
    Prepared = simple(Config, [], fun(_) -> truth:call(whereis(asked), {fail, Cause}, ?PATIENCE) end),
    Prepared#{before => fun() -> truth_server:start(asked) end};
prepare(collected, Config) ->
    disturbed(Config, fun(Pid) -> true = erlang:garbage_collect(Pid) end);
prepare(looked_at, Config) ->
    disturbed(Config, fun(Pid) -> _ = process_info(Pid, [status, dictionary, messages]) end);

prepare(tcp, #{cause := Cause} = Config) ->
    {ok, Listener} = gen_tcp:listen(0, [binary, {ip, {127, 0, 0, 1}}, {active, false}]),
    {ok, Number} = inet:port(Listener),
    Peer = cause_others:start(asked, fun() ->
                                             {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Number, [binary, {active, false}]),
                                             answers(Socket, Cause)
                                     end),
    {ok, Socket} = gen_tcp:accept(Listener),
    Prepared = simple(Config, [Peer],
                      fun(_) ->
                              ok = gen_tcp:send(Socket, <<"go">>),
                              truth:message({port, Socket}, fun() ->
                                                                    {ok, <<Sent:64/signed>>} = gen_tcp:recv(Socket, 8),
                                                                    Sent
                                                            end)
                      end),
    also_do(Prepared, fun() -> ok = gen_tcp:close(Socket), ok = gen_tcp:close(Listener) end);
prepare(port_answer, #{cause := Cause} = Config) ->
    Program = io_lib:format("while read x; do sleep ~.6f; echo done; done", [Cause / 1.0e9]),
    Port = open_port({spawn_executable, os:find_executable("sh")}, [binary, {args, ["-c", Program]}]),
    Prepared = simple(Config, [],
                      fun(Ms) ->
                              Due = truth:now_ns() + Ms * ?MS,
                              true = port_command(Port, <<"go\n">>),
                              truth:message({port, Port}, fun() -> receive {Port, {data, _}} -> Due end end)
                      end),
    Prepared#{tidy => fun() -> true = port_close(Port) end};
prepare(table, Config) ->
    Table = ets:new(?MODULE, [public]),
    true = ets:insert(Table, [{N, binary:copy(<<N:32>>, 4)} || N <- lists:seq(1, 200_000)]),
    Prepared = simple(Config, [],
                      fun(Ms) ->
                              From = truth:now_ns(),
                              ok = reads(Table, From + Ms * ?MS),
                              To = truth:now_ns(),
                              ok = truth:tell(run, none, From, To, To),
                              To - From
                      end),
    Prepared#{tidy => fun() -> true = ets:delete(Table) end};

prepare(node, Config) ->
    Server = remote(),
    remote(Config, Server, fun(Ms) ->
                                   truth:message({node, none}, fun() ->
                                                                       Due = truth:now_ns() + Ms * ?MS,
                                                                       _ = gen_server:call(Server, {sleep, Ms}, ?PATIENCE),
                                                                       Due
                                                               end)
                           end);
prepare(node_timeout, Config) ->
    Server = remote(),
    remote(Config, Server, fun(Ms) -> truth:call(Server, never, Ms) end).

%% @doc A span that works a little, and then waits for about the given number of milliseconds.
%% The processes are stopped at the end. Wait returns how long it waited.
-spec simple(causes:config(), [pid()], fun((Milliseconds :: integer()) -> Nanoseconds :: integer())) -> causes:prepared().
simple(#{work := Work, cause := Cause}, Processes, Wait) ->
    Ms = erlang:convert_time_unit(Cause, nanosecond, millisecond),
    #{span => fun(_, Finish) ->
                      ok = truth:work(Work),
                      Took = Wait(Ms),
                      {Finish(), Took}
              end,
      tidy => fun() -> lists:foreach(fun stop/1, Processes) end}.

%% The same with a message that arrives after half of that time, and is taken after the wait.
ticked(Config, Wait) ->
    Ticker = ticker(),
    simple(Config, [Ticker],
           fun(Ms) ->
                   Ticker ! {tick, self(), Ms div 2},
                   Took = Wait(Ms),
                   receive tick -> ok end,
                   Took
           end).

%% Waits for a process that works, and then exits with a reason that contains the time.
ends(Config, Start, Wait) ->
    simple(Config, [],
           fun(Ms) ->
                   Pid = Start(fun() -> receive go -> ok = truth:work(Ms * ?MS), exit({ended, truth:now_ns()}) end end),
                   Pid ! go,
                   truth:message({message, Pid}, fun() -> Wait(Pid) end)
           end).

%% Sleeps, and waits for a server, while another process disturbs this one.
disturbed(Config, Disturb) ->
    Server = truth_server:start(asked),
    Self = self(),
    Other = cause_others:start(disturber, fun() -> disturbs(Self, Disturb) end),
    simple(Config, [Other, Server],
           fun(Ms) ->
                   Half = Ms div 2,
                   truth:sleep(Half) + truth:call(Server, {sleep, Half}, ?PATIENCE)
           end).

disturbs(Pid, Disturb) ->
    receive after 3 -> Disturb(Pid) end,
    disturbs(Pid, Disturb).

%% A process that sends messages to others after a delay.
ticker() ->
    cause_others:start(ticker, fun ticks/0).

ticks() ->
    receive
        {tick, Pid, Milliseconds} -> _ = erlang:send_after(Milliseconds, self(), {now, Pid});
        {now, Pid} -> Pid ! tick
    end,
    ticks().

answers(Socket, Nanoseconds) ->
    {ok, <<"go">>} = gen_tcp:recv(Socket, 2),
    _ = truth:sleep(erlang:convert_time_unit(Nanoseconds, nanosecond, millisecond)),
    ok = gen_tcp:send(Socket, <<(truth:now_ns()):64/signed>>),
    answers(Socket, Nanoseconds).

%% Writes for at least the given time, and returns how long it took. The process that owns the
%% file does not report when it answered.
writes(_File, _Block, Nanoseconds) when Nanoseconds =< 0 -> 0;
writes(File, Block, Nanoseconds) ->
    From = truth:now_ns(),
    ok = file:pwrite(File, 0, Block),
    To = truth:now_ns(),
    ok = truth:tell(message, File, From, From, To),
    To - From + writes(File, Block, Nanoseconds - (To - From)).

reads(Table, Until) ->
    _ = ets:select_count(Table, [{{'$1', '_'}, [{'>', '$1', 1000}], [true]}]),
    case truth:now_ns() >= Until of
        true -> ok;
        false -> reads(Table, Until)
    end.

%% A server on the other node.
remote() ->
    [Node | _] = nodes(connected), % including hidden nodes
    case erpc:call(Node, erlang, whereis, [asked]) of
        undefined -> erpc:call(Node, truth_server, start, [asked]);
        Server -> Server
    end.

remote(Config, Server, Wait) ->
    Prepared = simple(Config, [], Wait),
    Prepared#{tidy => fun() -> true = exit(Server, kill) end}.

also_stop(Prepared, Processes) ->
    also_do(Prepared, fun() -> lists:foreach(fun stop/1, Processes) end).

%% @doc Adds a function to call at the end.
-spec also_do(causes:prepared(), fun(() -> term())) -> causes:prepared().
also_do(#{tidy := Tidy} = Prepared, More) ->
    Prepared#{tidy => fun() -> Tidy(), More() end}.

stop(Pid) -> cause_others:stop(Pid).
