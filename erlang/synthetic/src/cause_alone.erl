%%% @doc Causes that slow a process down without another one's doing, for {@link causes}.
%%%
%%% `gc': a heap with much on it is collected, again and again. `file_io': a file is
%%% written, synchronised and read. `port_busy': a program does not read what it is sent,
%%% and the process is suspended.
%%%
%%% `overload': nothing but work, for work and cause together if the machine has nothing
%%% else to do. The others that keep it busy are the caller's to start. What they took is
%%% what the operating system says of the scheduler's thread. `neighbour': a process of
%%% high priority, registered as such, runs without a pause. Both have one scheduler
%%% online meanwhile.
%%%
%%% `sleep', `timer', `port_message': nothing happens until a time, until the message of a
%%% timer, until that of a program. Why it takes so long cannot be known.
-module(cause_alone).

-export([scenarios/0, prepare/2, one_scheduler/0, scheduler_thread/0, schedstat/1, shell/1]).

-export_type([scenario/0]).

-type scenario() :: gc | file_io | port_busy | overload | neighbour | sleep | timer | port_message.

-define(LIVE, 6_000_000). % elements of a list: its collection takes long against the way to the thread that does it
-define(BLOCK, 16_777_216). % bytes of a file
-define(QUEUE, 262_144). % bytes, more than a pipe and a port take before the port is busy
-define(PATIENCE, 10_000). % ms

-spec scenarios() -> [scenario()].
scenarios() ->
    [gc, file_io, port_busy, overload, neighbour, sleep, timer, port_message].

-spec prepare(scenario(), causes:config()) -> causes:prepared().
prepare(gc, #{work := Work, cause := Cause}) ->
    Live = lists:seq(1, ?LIVE),
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
    #{span => fun(_, Finish) ->
                      synthetic_work:busy(Work),
                      Took = again(Cause, fun() -> write_and_read(File, Block) end),
                      {Finish(), Took}
              end,
      tidy => fun() -> ok = file:close(File), ok = file:delete(Path) end};
prepare(port_busy, #{work := Work, cause := Cause}) ->
    Reader = io_lib:format("sleep ~.6f; cat >/dev/null; :", [Cause / 1.0e9]),
    Block = binary:copy(<<"x">>, ?QUEUE),
    #{before => fun() -> shell(Reader) end,
      span => fun(Port, Finish) ->
                      synthetic_work:busy(Work),
                      true = port_command(Port, Block), % fills its queue
                      Took = synthetic_work:timed(fun() -> true = port_command(Port, <<"x">>) end),
                      To = Finish(),
                      true = port_close(Port),
                      {To, Took}
              end};
prepare(overload, #{work := Work, cause := Cause}) ->
    Loops = synthetic_work:loops(Work + Cause),
    Restore = one_scheduler(),
    Thread = scheduler_thread(),
    #{before => fun() -> waited(Thread) end,
      span => fun(Before, Finish) ->
                      synthetic_work:work(Loops),
                      To = Finish(),
                      {To, waited(Thread) - Before}
              end,
      tidy => Restore};
prepare(neighbour, #{work := Work, cause := Cause}) ->
    Restore = one_scheduler(),
    Neighbour = spawn_opt(fun neighbour/0, [link, {priority, high}]),
    true = register(neighbour, Neighbour),
    #{span => fun(_, Finish) ->
                      Neighbour ! {run, Cause, self()},
                      true = erlang:yield(),
                      synthetic_work:busy(Work),
                      To = Finish(),
                      receive {ran, Took} -> {To, Took} end
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

%% Does it until it has taken so long; returns how long that was.
again(Atleast, Fun) -> again(Atleast, Fun, 0).

again(Atleast, Fun, Took) when Took < Atleast -> again(Atleast, Fun, Took + synthetic_work:timed(Fun));
again(_, _, Took) -> Took.

write_and_read(File, Block) ->
    ok = file:pwrite(File, 0, Block),
    ok = file:datasync(File),
    {ok, <<_:?BLOCK/binary>>} = file:pread(File, 0, ?BLOCK).

%% The program must not close its output before the port is closed: that closes it too.
%% @doc A port of a program of the shell.
-spec shell(iodata()) -> port().
shell(Program) ->
    open_port({spawn_executable, os:find_executable("sh")}, [binary, {args, ["-c", Program]}]).

neighbour() ->
    receive
        {run, Nanoseconds, From} ->
            From ! {ran, synthetic_work:timed(fun() -> synthetic_work:busy(Nanoseconds) end)},
            neighbour()
    end.

%% @doc Has one scheduler online. Returns how to go back.
-spec one_scheduler() -> fun(() -> term()).
one_scheduler() ->
    Were = erlang:system_flag(schedulers_online, 1),
    fun() -> erlang:system_flag(schedulers_online, Were) end.

%% @doc The operating system's files about the thread of the first scheduler.
-spec scheduler_thread() -> file:filename().
scheduler_thread() ->
    {ok, Threads} = file:list_dir("/proc/self/task"),
    [Thread] = [Path || Thread <- Threads, Path <- ["/proc/self/task/" ++ Thread],
                        lists:member(file:read_file(Path ++ "/comm"),
                                     [{ok, <<"erts_sched_1\n">>}, {ok, <<"1_scheduler\n">>}])],
    Thread.

%% How long the thread has waited for a processor so far, in nanoseconds.
waited(Thread) ->
    {_Ran, Waited} = schedstat(Thread),
    Waited.

%% @doc How long a thread has run so far, and has waited for a processor, in nanoseconds.
-spec schedstat(file:filename()) -> {Ran :: non_neg_integer(), Waited :: non_neg_integer()}.
schedstat(Thread) ->
    {ok, Text} = file:read_file(Thread ++ "/schedstat"),
    [Ran, Waited, _Times] = string:lexemes(Text, " \n"),
    {binary_to_integer(Ran), binary_to_integer(Waited)}.

ms(Nanoseconds) -> erlang:convert_time_unit(Nanoseconds, nanosecond, millisecond).
