%%% @doc More scenarios with waits, for {@link causes}: causes that slow down systems in
%%% production. As in {@link cause_waits}, the processes report what they do.
%%%
%%% Messages: `stale': the mailbox of the server contains a message that it never takes.
%%% `relay': three processes pass a request on, and the last one answers. `task': a process
%%% answers to an alias of the monitor, as Elixir's tasks do. `checkout': a pool can lend its
%%% worker only after another process has returned it. `off_heap': the messages of a server are
%%% stored off its heap, and other processes send to it. `large': a message of some megabytes
%%% is copied. `noproc': the server no longer exists.
%%%
%%% Calls that time out: `late_timer', `late_down', `late_port': the answer comes too late,
%%% while the process waits for the message of a timer, the end of a process, or a program of
%%% the operating system. `asleep_at_timeout': the server sleeps for longer than the timeout of
%%% the call.
%%%
%%% Schedulers: `crowd': a hundred processes are runnable. `low': the process has a low
%%% priority. `binaries': the process creates binaries, whose memory is collected. Suspensions:
%%% `suspended_by_two': two processes suspend the process, one after the other, and for some
%%% time both at once. `resumed': a server was suspended, and is called as soon as it is
%%% resumed.
-module(cause_met).

-export([scenarios/0, prepare/2]).

-export_type([scenario/0]).

-type scenario() :: stale | relay | task | checkout | off_heap | large | noproc |
                    late_timer | late_down | late_port | asleep_at_timeout |
                    crowd | low | binaries | suspended_by_two | resumed.

-define(PATIENCE, 60_000). % ms
-define(MS, 1_000_000). % ns

-spec scenarios() -> [scenario()].
scenarios() ->
    [stale, relay, task, checkout, off_heap, large, noproc,
     late_timer, late_down, late_port, asleep_at_timeout,
     crowd, low, binaries, suspended_by_two, resumed].

-spec prepare(scenario(), causes:config()) -> causes:prepared().

prepare(stale, Config) ->
    Server = cause_others:start(asked, fun() -> self() ! stale, answers() end),
    called(Config, Server);
prepare(relay, Config) ->
    Last = cause_others:start(relay_3, fun last/0),
    Second = cause_others:start(relay_2, fun() -> passes(fun(Ms) -> truth:work(Ms * ?MS) end, Last) end),
    First = cause_others:start(relay_1, fun() -> passes(fun truth:sleep/1, Second) end),
    cause_waits:simple(Config, [First, Second, Last],
                       fun(Ms) ->
                               First ! {pass, Ms div 3 + 1, self()},
                               truth:message({message, Last}, fun() -> receive {passed, At} -> At end end)
                       end);
prepare(task, Config) ->
    cause_waits:simple(Config, [],
                       fun(Ms) ->
                               Pid = spawn(fun() -> receive {go, Ref} -> ok = truth:work(Ms * ?MS), Ref ! {Ref, truth:now_ns()} end end),
                               Ref = monitor(process, Pid, [{alias, reply_demonitor}]),
                               Pid ! {go, Ref},
                               truth:message({message, Pid}, fun() -> receive {Ref, At} -> At end end)
                       end);
prepare(checkout, Config) ->
    Pool = cause_others:start(pool, fun() -> pool(free) end),
    Other = cause_others:start(other_user, fun() -> uses(Pool) end),
    cause_waits:simple(Config, [Other, Pool],
                       fun(Ms) ->
                               Other ! {use, Ms + 2, self()},
                               receive in_use -> ok end,
                               Pool ! {checkout, self()},
                               Took = truth:message({message, Pool}, fun() -> receive {worker, At} -> At end end),
                               Pool ! checkin,
                               Took
                       end);
prepare(off_heap, Config) ->
    Server = spawn_opt(fun answers/0, [link, {message_queue_data, off_heap}]),
    true = register(asked, Server),
    Noise = [cause_others:start(Name, fun() -> noise(Server) end) || Name <- [noise_1, noise_2]],
    cause_waits:also_do(called(Config, Server), fun() -> lists:foreach(fun cause_others:stop/1, Noise) end);
prepare(large, Config) ->
    Server = cause_others:start(asked, fun takes_large/0),
    Large = lists:seq(1, 300_000),
    cause_waits:simple(Config, [Server],
                       fun(Ms) ->
                               From = truth:now_ns(),
                               Server ! {large, self(), Ms * ?MS, Large},
                               To = truth:now_ns(),
                               ok = truth:tell(run, none, From, To, To),
                               To - From + truth:message({message, Server}, fun() -> receive {taken, At} -> At end end)
                       end);
prepare(noproc, Config) ->
    cause_waits:simple(Config, [],
                       fun(Ms) ->
                               {Pid, Monitor} = spawn_monitor(fun() -> ok end),
                               receive {'DOWN', Monitor, process, Pid, _} -> ok end,
                               Before = truth:sleep(Ms div 2),
                               noproc = try gen_server:call(Pid, anything) catch exit:{noproc, _} -> noproc end,
                               Before + truth:sleep(Ms div 2)
                       end);

prepare(late_timer, Config) ->
    late(Config, fun(Ms) ->
                         Due = truth:now_ns() + Ms * ?MS,
                         _ = erlang:send_after(Ms, self(), tick),
                         truth:message({timer, none}, fun() -> receive tick -> Due end end)
                 end);
prepare(late_down, Config) ->
    late(Config, fun(Ms) ->
                         {Pid, Monitor} = spawn_monitor(fun() -> _ = truth:sleep(Ms), exit({ended, truth:now_ns()}) end),
                         truth:message({message, Pid}, fun() -> receive {'DOWN', Monitor, process, Pid, {ended, At}} -> At end end)
                 end);
prepare(late_port, Config) ->
    Port = open_port({spawn_executable, os:find_executable("sh")}, [binary, {args, ["-c", "while read x; do sleep $x; echo done; done"]}]),
    Prepared = late(Config, fun(Ms) ->
                                    Due = truth:now_ns() + Ms * ?MS,
                                    true = port_command(Port, io_lib:format("~.3f~n", [Ms / 1000])),
                                    truth:message({port, Port}, fun() -> receive {Port, {data, _}} -> Due end end)
                            end),
    cause_waits:also_do(Prepared, fun() -> true = port_close(Port) end);
prepare(asleep_at_timeout, Config) ->
    Server = truth_server:start(asked),
    Prepared = cause_waits:simple(Config, [Server], fun(Ms) -> truth:call(Server, {sleep, Ms + Ms div 2}, Ms) end),
    Prepared#{before => fun() -> gen_server:call(Server, {work, 1}, ?PATIENCE) end};

prepare(crowd, Config) ->
    Crowd = [spawn_link(fun() -> crowd() end) || _ <- lists:seq(1, 100)],
    Prepared = cause_waits:simple(Config, Crowd, fun works/1),
    Prepared#{before => fun() -> [Pid ! go || Pid <- Crowd] end};
prepare(low, Config) ->
    Busy = [spawn_link(fun() -> busy_at_times() end) || _ <- lists:seq(1, erlang:system_info(schedulers_online))],
    cause_waits:simple(Config, Busy,
                       fun(Ms) ->
                               _ = [Pid ! {go, Ms * ?MS} || Pid <- Busy],
                               Before = process_flag(priority, low),
                               Took = works(Ms),
                               low = process_flag(priority, Before),
                               Took
                       end);
prepare(binaries, Config) ->
    cause_waits:simple(Config, [],
                       fun(Ms) ->
                               From = truth:now_ns(),
                               ok = binaries(From + Ms * ?MS, []),
                               To = truth:now_ns(),
                               ok = truth:tell(run, none, From, To, To),
                               To - From
                       end);
prepare(suspended_by_two, Config) ->
    [First, Second] = Both = [cause_others:start(Name, fun suspends/0) || Name <- [suspender, suspender_2]],
    cause_waits:simple(Config, Both,
                       fun(Ms) ->
                               Third = Ms div 3,
                               Self = self(),
                               Then = fun() -> Second ! {suspend, Self, Third, Ms, fun() -> ok end} end,
                               First ! {suspend, Self, 3, 2 * Third, Then},
                               [{_, Held1, Resumes1, Resumed1}, {Suspends2, Held2, Resumes2, _}] =
                                   [receive {suspended, Pid, Times} -> Times end || Pid <- Both],
                               ok = truth:tell(suspended, First, Held1, min(Suspends2, Resumes1), min(Suspends2, Resumes1)),
                               ok = truth:tell(suspended, Second, max(Resumed1, Held2), Resumes2, Resumes2),
                               Resumes2 - Held1
                       end);
prepare(resumed, Config) ->
    Server = cause_others:start(asked, fun answers/0),
    Prepared = called(Config, Server),
    Prepared#{before => fun() ->
                                true = erlang:suspend_process(Server),
                                _ = [Server ! noise || _ <- lists:seq(1, 20_000)],
                                true = erlang:resume_process(Server)
                        end}.

%% A span that calls a server, which works.
called(Config, Server) ->
    cause_waits:simple(Config, [Server], fun(Ms) -> truth:call(Server, {work, Ms * ?MS}, ?PATIENCE) end).

%% A span that calls a server and times out, and then waits for something else. The late answer
%% arrives during that wait.
late(Config, Wait) ->
    Server = truth_server:start(asked),
    cause_waits:simple(Config, [Server],
                       fun(Ms) ->
                               Part = Ms div 4 + 1,
                               truth:call(Server, {sleep, 2 * Part}, Part) + Wait(3 * Part)
                       end).

%% Answers calls, and receives noise messages.
answers() ->
    receive
        {'$gen_call', From, {work, Nanoseconds}} ->
            ok = truth:work(Nanoseconds),
            Answers = truth:now_ns(),
            gen:reply(From, Answers),
            ok = ran(Answers);
        noise ->
            From = truth:now_ns(),
            ok = drain(),
            ok = ran(From)
    end,
    answers().

%% Tells that the process has been running since a time: it may be held up before it receives.
ran(From) ->
    To = truth:now_ns(),
    truth:tell(run, none, From, To, To).

drain() ->
    receive noise -> drain() after 0 -> ok end.

noise(Pid) ->
    receive after 1 -> Pid ! noise end,
    noise(Pid).

passes(Do, Next) ->
    receive {pass, Ms, Client} -> _ = Do(Ms), Next ! {pass, Ms, Client} end,
    passes(Do, Next).

last() ->
    receive {pass, Ms, Client} -> ok = truth:work(Ms * ?MS), Client ! {passed, truth:now_ns()} end,
    last().

pool(free) ->
    receive {checkout, Pid} -> Pid ! {worker, truth:now_ns()}, pool(given) end;
pool(given) ->
    receive checkin -> pool(free) end.

%% Holds the worker of a pool for the given time.
uses(Pool) ->
    receive
        {use, Ms, Pid} ->
            Pool ! {checkout, self()},
            receive {worker, _} -> ok end,
            Pid ! in_use,
            ok = truth:work(Ms * ?MS),
            Pool ! checkin
    end,
    uses(Pool).

takes_large() ->
    receive
        {large, Pid, Nanoseconds, Large} ->
            From = truth:now_ns(), % before the message is collected as garbage
            true = length(Large) > 0,
            ok = truth:busy(Nanoseconds),
            Pid ! {taken, truth:now_ns()},
            ok = ran(From)
    end,
    takes_large().

works(Ms) ->
    From = truth:now_ns(),
    ok = truth:work(Ms * ?MS),
    truth:now_ns() - From.

crowd() ->
    receive go -> ok = truth:busy(2 * ?MS) end,
    crowd().

busy_at_times() ->
    receive {go, Nanoseconds} -> ok = truth:busy(Nanoseconds) end,
    busy_at_times().

binaries(Until, Some) ->
    Binary = binary:copy(<<0>>, 100_000),
    case truth:now_ns() >= Until of
        true -> ok;
        false -> binaries(Until, [Binary | lists:sublist(Some, 10)])
    end.

%% Suspends a process after a delay, for a given time, and sends it the times. Calls Then as
%% soon as the process is suspended.
suspends() ->
    receive
        {suspend, Pid, After, For, Then} ->
            timer:sleep(After),
            Suspends = truth:now_ns(),
            true = erlang:suspend_process(Pid),
            Held = truth:now_ns(),
            _ = Then(),
            timer:sleep(For),
            Resumes = truth:now_ns(),
            true = erlang:resume_process(Pid),
            Pid ! {suspended, self(), {Suspends, Held, Resumes, truth:now_ns()}}
    end,
    suspends().
