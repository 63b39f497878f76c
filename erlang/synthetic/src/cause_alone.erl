%%% @doc Causes for {@link causes} that slow a process down without any action of another
%%% process.
%%%
%%% `gc': the VM collects a large heap again and again. `file_io': the process writes,
%%% synchronises and reads a file. The measured cause is the time that the VM itself counts for
%%% native functions on its dirty schedulers for files. The process's own clock would also measure
%%% its waits for a scheduler after each function. `port_busy': a program does not read its input,
%%% so the VM suspends the process that writes to it.
%%%
%%% `overload': the process only computes. On an idle machine this takes the time for work and
%%% cause together. The caller must start the other processes that keep the machine busy. The
%%% measured cause is the waiting time that the operating system reports for the scheduler's
%%% thread. `neighbour': a process with high priority, which is registered as `neighbour',
%%% computes without a pause. Both scenarios use a single online scheduler.
%%%
%%% `sleep', `timer', `port_message': the process waits for a given time, for the message of a
%%% timer, or for the message of a program. An observer cannot know why this takes so long.
-module(cause_alone).

-export([scenarios/0, prepare/2, one_scheduler/0, scheduler_thread/0, schedstat/1, shell/1]).

-export_type([scenario/0]).

-type scenario() :: gc | file_io | port_busy | overload | neighbour | sleep | timer | port_message.

-define(LIVE, 6_000_000). % elements of a list: collecting it must take much longer than reaching the thread that collects
-define(BLOCK, 16_777_216). % bytes of a file
-define(QUEUE, 262_144). % bytes, more than a pipe and a port accept before the port is busy
-define(PATIENCE, 10_000). % ms

-spec scenarios() -> [scenario()].
scenarios() ->
    [gc, file_io, port_busy, overload, neighbour, sleep, timer, port_message].

-spec prepare(scenario(), causes:config()) -> causes:prepared().
prepare(gc, #{work := Work, cause := Cause}) ->
    Live = at_once(fun() -> lists:seq(1, ?LIVE) end),
    #{before => fun() -> Live end,
      span => fun(_, Finish) ->
                      synthetic_work:busy(Work),
                      Took = again(Cause, fun() -> erlang:garbage_collect() end),
                      {Finish(), Took}
              end,
      tidy => fun() -> hd(Live) end};
prepare(file_io, #{work := Work, cause := Cause}) ->
    Path = filename:join(os:getenv("TMPDIR", "/tmp"), "beamscope_causes_" ++ os:getpid()),
    {ok, File} = file:open(Path, [raw, binary, read, write]),
    Block = binary:copy(<<1>>, ?BLOCK),
    Counted = erlang:system_flag(microstate_accounting, true),
    #{before => fun file_functions/0,
      span => fun(Before, Finish) ->
                      synthetic_work:busy(Work),
                      Took = write_and_read(File, Block, Before, Cause),
                      {Finish(), Took}
              end,
      tidy => fun() ->
                      _ = erlang:system_flag(microstate_accounting, Counted),
                      ok = file:close(File),
                      ok = file:delete(Path)
              end};
prepare(port_busy, #{work := Work, cause := Cause}) ->
    Reader = io_lib:format("sleep ~.6f; cat >/dev/null; :", [Cause / 1.0e9]),
    Block = binary:copy(<<"x">>, ?QUEUE),
    #{before => fun() -> shell(Reader) end,
      span => fun(Port, Finish) ->
                      synthetic_work:busy(Work),
                      true = port_command(Port, Block), % fills the port's queue
                      Took = synthetic_work:timed(fun() -> true = port_command(Port, <<"x">>) end),
                      To = Finish(),
                      true = port_close(Port),
                      {To, Took}
              end};
prepare(overload, #{work := Work, cause := Cause}) ->
    Loops = at_once(fun() -> synthetic_work:loops(Work + Cause) end),
    Restore = one_scheduler(),
    Thread = scheduler_thread(),
    #{before => fun() -> waited(Thread) end,
      span => fun(Before, Finish) ->
                      ok = at_once(fun() -> synthetic_work:work(Loops) end),
                      To = Finish(),
                      {To, waited(Thread) - Before}
              end,
      tidy => Restore};
prepare(neighbour, #{work := Work, cause := Cause}) ->
    Restore = one_scheduler(),
    Neighbour = spawn_opt(fun neighbour/0, [link, {priority, high}]),
    true = register(neighbour, Neighbour),
    #{span => fun(_, Finish) ->
                      %% The neighbour runs as soon as the process yields, which may be when it sends.
                      Took = synthetic_work:timed(fun() ->
                                                          Neighbour ! {run, Cause, self()},
                                                          true = erlang:yield() % others may run too
                                                  end),
                      synthetic_work:busy(Work),
                      To = Finish(),
                      receive ran -> {To, Took} end
              end,
      tidy => fun() -> cause_others:stop(Neighbour), Restore() end};
prepare(sleep, #{cause := Cause} = Config) ->
    waiting(Config, fun() -> receive after ms(Cause) -> ok end end);
prepare(timer, #{cause := Cause} = Config) ->
    waiting(Config, fun() ->
                            Ref = make_ref(),
                            _ = erlang:send_after(ms(Cause), self(), Ref),
                            receive Ref -> ok end
                    end);
prepare(port_message, #{work := Work, cause := Cause}) ->
    Program = io_lib:format("read x; sleep ~.6f; echo done; read x", [Cause / 1.0e9]),
    #{before => fun() -> shell(Program) end,
      span => fun(Port, Finish) ->
                      synthetic_work:busy(Work),
                      Took = synthetic_work:timed(fun() ->
                                                          true = port_command(Port, <<"go\n">>),
                                                          receive {Port, {data, _}} -> ok
                                                          after ?PATIENCE -> error(no_answer)
                                                          end
                                                  end),
                      To = Finish(),
                      true = port_close(Port),
                      {To, Took}
              end}.

waiting(#{work := Work}, Wait) ->
    #{span => fun(_, Finish) ->
                      synthetic_work:busy(Work),
                      Took = synthetic_work:timed(Wait),
                      {Finish(), Took}
              end}.

%% Calls Fun with a high priority. Under load the process would otherwise wait long for each of
%% its turns on a scheduler.
at_once(Fun) ->
    Before = process_flag(priority, high),
    Result = Fun(),
    high = process_flag(priority, Before),
    Result.

%% Calls Fun until the calls have taken at least the given time in total. Returns that total.
again(Atleast, Fun) -> again(Atleast, Fun, 0).

again(Atleast, Fun, Took) when Took < Atleast -> again(Atleast, Fun, Took + synthetic_work:timed(Fun));
again(_, _, Took) -> Took.

%% Uses a file until its functions have taken at least the given time in total. Returns that total.
write_and_read(File, Block, Before, Atleast) ->
    ok = file:pwrite(File, 0, Block),
    ok = file:datasync(File),
    {ok, <<_:?BLOCK/binary>>} = file:pread(File, 0, ?BLOCK),
    case file_functions() - Before of
        Took when Took < Atleast -> write_and_read(File, Block, Before, Atleast);
        Took -> Took
    end.

%% Returns how long the dirty schedulers for files have been in native functions so far, in
%% nanoseconds. No other process may use files meanwhile.
file_functions() ->
    Units = lists:sum([Units || #{type := dirty_io_scheduler, counters := #{emulator := Units}}
                                    <- erlang:statistics(microstate_accounting)]),
    erlang:convert_time_unit(Units, perf_counter, nanosecond).

%% The program must not close its output before the port is closed, because that would close
%% the port.
%% @doc Opens a port to a shell program.
-spec shell(iodata()) -> port().
shell(Program) ->
    open_port({spawn_executable, os:find_executable("sh")}, [binary, {args, ["-c", Program]}]).

neighbour() ->
    receive
        {run, Nanoseconds, From} ->
            ok = synthetic_work:busy(Nanoseconds),
            From ! ran,
            neighbour()
    end.

%% @doc Reduces the online schedulers to one. Returns a function that restores the previous
%% number.
-spec one_scheduler() -> fun(() -> term()).
one_scheduler() ->
    Were = erlang:system_flag(schedulers_online, 1),
    fun() -> erlang:system_flag(schedulers_online, Were) end.

%% @doc Returns the directory in /proc for the thread of the first scheduler.
-spec scheduler_thread() -> file:filename().
scheduler_thread() ->
    {ok, Threads} = file:list_dir("/proc/self/task"),
    [Thread] = [Path || Thread <- Threads, Path <- ["/proc/self/task/" ++ Thread],
                        lists:member(file:read_file(Path ++ "/comm"),
                                     [{ok, <<"erts_sched_1\n">>}, {ok, <<"1_scheduler\n">>}])],
    Thread.

%% Returns how long the thread has waited for a processor so far, in nanoseconds.
waited(Thread) ->
    {_Ran, Waited} = schedstat(Thread),
    Waited.

%% @doc Returns how long a thread has run and has waited for a processor so far, in
%% nanoseconds.
-spec schedstat(file:filename()) -> {Ran :: non_neg_integer(), Waited :: non_neg_integer()}.
schedstat(Thread) ->
    {ok, Text} = file:read_file(Thread ++ "/schedstat"),
    [Ran, Waited, _Times] = string:lexemes(Text, " \n"),
    {binary_to_integer(Ran), binary_to_integer(Waited)}.

ms(Nanoseconds) -> erlang:convert_time_unit(Nanoseconds, nanosecond, millisecond).
