%%% @doc Causes that are neither in what a process does nor in whom it waits for, for
%%% {@link causes}: the VM, or another process, does not let it go on.
%%%
%%% `persistent_term', `code': the process changes a persistent term, or loads a module, and
%%% has to wait until all schedulers know. One of them is busy with a multiplication.
%%%
%%% `suspended', `suspended_running', `suspended_ready': the process is suspended by
%%% another one, which is registered as `suspender': while it waits for a message, while it
%%% runs, and while it waits for the only scheduler. `suspended_server': the server
%%% `slow_callee', which it calls, is suspended.
%%%
%%% `native_sleep': a function of the VM sleeps, and the scheduler's thread with it.
%%% `table_lock': another process reads a large term from a table, which nobody can write
%%% to meanwhile. What the thread ran itself, waiting, is not counted. `stopped', `stopped_waiting': a signal stops the VM, while the process
%%% works, and while it waits for a time that is over when the VM goes on.
-module(cause_vm).

-export([scenarios/0, prepare/2]).

-export_type([scenario/0]).

-type scenario() :: persistent_term | code | suspended | suspended_running | suspended_ready | suspended_server
                  | native_sleep | table_lock | stopped | stopped_waiting.

-define(MODULE_LOADED, cause_vm_loaded).
-define(PATIENCE, 60_000). % ms

-spec scenarios() -> [scenario()].
scenarios() ->
    [persistent_term, code, suspended, suspended_running, suspended_ready, suspended_server,
     native_sleep, table_lock, stopped, stopped_waiting].

-spec prepare(scenario(), causes:config()) -> causes:prepared().
prepare(persistent_term, Config) ->
    Prepared = #{tidy := Tidy} =
        while_multiplied(Config, fun() -> none end,
                         fun(_) -> ok = persistent_term:put(?MODULE, erlang:unique_integer()) end),
    Prepared#{tidy := fun() -> Tidy(), persistent_term:erase(?MODULE) end};
prepare(code, Config) ->
    {ok, Module, Code} = compile:forms([{attribute, 1, module, ?MODULE_LOADED}, {eof, 2}]),
    Prepared = #{tidy := Tidy} =
        while_multiplied(Config,
                         fun() -> unload(Module), erlang:prepare_loading(Module, Code) end,
                         fun(Loadable) -> ok = erlang:finish_loading([Loadable]) end),
    Prepared#{tidy := fun() -> Tidy(), unload(Module) end};
prepare(suspended, #{work := Work, cause := Cause}) ->
    suspending(fun(Suspender, Finish) ->
                       synthetic_work:busy(Work),
                       Suspender ! {suspend, self(), Cause, self()},
                       Took = receive {suspended, From, To} -> To - From end,
                       {Finish(), Took}
               end);
prepare(suspended_running, #{work := Work, cause := Cause}) ->
    suspending(fun(Suspender, Finish) ->
                       synthetic_work:busy(Work),
                       Over = atomics:new(1, []),
                       Suspender ! {suspend, self(), Cause, Over},
                       until_set(Over),
                       To = Finish(),
                       {To, atomics:get(Over, 1)}
               end);
prepare(suspended_ready, #{work := Work, cause := Cause}) ->
    Restore = cause_alone:one_scheduler(),
    Prepared = #{tidy := Tidy} =
        suspending(fun(Suspender, Finish) ->
                           synthetic_work:busy(Work),
                           Over = atomics:new(1, []),
                           Suspender ! {suspend, self(), Cause, Over},
                           true = erlang:yield(),
                           To = Finish(),
                           {To, atomics:get(Over, 1)}
                   end),
    Prepared#{tidy := fun() -> Tidy(), Restore() end};
prepare(native_sleep, #{work := Work, cause := Cause}) ->
    Were = erts_debug:set_internal_state(available_internal_state, true),
    Ms = ms(Cause),
    Prepared = working(Work, fun(_) ->
                                     synthetic_work:timed(fun() -> true = erts_debug:set_internal_state(sleep, Ms) end)
                             end),
    Prepared#{tidy => fun() -> Were =:= true orelse erts_debug:set_internal_state(available_internal_state, false) end};
prepare(table_lock, #{work := Work, cause := Cause}) ->
    Table = ets:new(table_lock, [public]),
    true = ets:insert(Table, {large, large_term(Cause div 4)}),
    _ = process_flag(scheduler, 1),
    Reading = atomics:new(1, []),
    Reader = spawn_opt(fun() -> reader(Table, Reading) end, [link, {scheduler, 2}]),
    Thread = cause_alone:scheduler_thread(),
    Prepared = working(Work, fun(_) ->
                                     Reader ! read,
                                     until_set(Reading),
                                     {Before, _} = cause_alone:schedstat(Thread),
                                     Took = synthetic_work:timed(fun() -> true = ets:insert(Table, {small}) end),
                                     {After, _} = cause_alone:schedstat(Thread),
                                     max(0, Took - (After - Before))
                             end),
    Prepared#{before => fun() ->
                                ok = atomics:put(Reading, 1, 0),
                                true = erlang:garbage_collect(Reader)
                        end,
              tidy => fun() -> cause_others:stop(Reader), ets:delete(Table) end};
prepare(stopped, #{work := Work, cause := Cause}) ->
    stopping(Work, Cause, fun(Stopper) ->
                                  Before = erlang:monotonic_time(nanosecond),
                                  ok = stop(Stopper),
                                  largest_leap(Before, fun() -> gone_on(Stopper, 0) end)
                          end);
prepare(stopped_waiting, #{work := Work, cause := Cause}) ->
    Watch = spawn_opt(fun stop_watch/0, [link, {scheduler, 2}]),
    _ = process_flag(scheduler, 1),
    Prepared = #{tidy := Tidy} =
        stopping(Work, Cause, fun(Stopper) ->
                                      Watch ! {watch, self()},
                                      receive watching -> ok end, % or part of the stop is missed
                                      ok = stop(Stopper),
                                      receive after ms(Cause div 2) -> ok end,
                                      true = gone_on(Stopper, ?PATIENCE),
                                      Watch ! {enough, self()},
                                      receive {leap, Took} -> Took end
                              end),
    Prepared#{tidy := fun() -> Tidy(), cause_others:stop(Watch) end};
prepare(suspended_server, #{work := Work, cause := Cause}) ->
    Callee = cause_server:start_link(slow_callee),
    Prepared = #{tidy := Tidy} =
        suspending(fun(Suspender, Finish) ->
                           synthetic_work:busy(Work),
                           Suspender ! {suspend, Callee, Cause, self()},
                           _ = sys:get_state(Suspender), % it is suspended by now
                           Asked = erlang:monotonic_time(nanosecond),
                           _ = gen_server:call(Callee, now, ?PATIENCE),
                           Took = receive {suspended, From, To} -> To - max(From, Asked) end,
                           {Finish(), Took}
                   end),
    Prepared#{tidy := fun() -> Tidy(), cause_others:stop(Callee) end}.

%% Spans that begin with work, and go on with something else.
working(Work, Do) ->
    #{span => fun(State, Finish) ->
                      synthetic_work:busy(Work),
                      Took = Do(State),
                      {Finish(), Took}
              end}.

%% Spans in which a process does something while a scheduler is busy with a multiplication
%% that takes about as long as the cause is to.
while_multiplied(#{work := Work, cause := Cause}, Before, Do) ->
    Factor = ones(factor(Cause)),
    Busy = atomics:new(1, []),
    _ = process_flag(scheduler, 1),
    Multiplier = spawn_opt(fun() -> multiplier(Factor, Busy) end, [link, {scheduler, 2}]),
    #{before => fun() ->
                        ok = atomics:put(Busy, 1, 0),
                        Before()
                end,
      span => fun(State, Finish) ->
                      synthetic_work:busy(Work),
                      Multiplier ! multiply,
                      until_set(Busy),
                      Took = synthetic_work:timed(fun() -> Do(State) end),
                      {Finish(), Took}
              end,
      tidy => fun() -> cause_others:stop(Multiplier) end}.

multiplier(Factor, Busy) ->
    receive
        multiply ->
            ok = atomics:put(Busy, 1, 1),
            _ = Factor * Factor
    end,
    multiplier(Factor, Busy).

%% How many bits a number has whose square takes so long: four times as long for twice as
%% many.
factor(Nanoseconds) ->
    Bits = 200_000,
    Factor = ones(Bits),
    Took = lists:min([synthetic_work:timed(fun() -> Factor * Factor end) || _ <- lists:seq(1, 5)]),
    round(Bits * math:sqrt(Nanoseconds / Took)).

%% Multiplying skips digits that are 0.
ones(Bits) -> 1 bsl Bits - 1.

until_set(Atomics) ->
    atomics:get(Atomics, 1) =/= 0 orelse until_set(Atomics).

unload(Module) ->
    _ = code:purge(Module),
    _ = code:delete(Module),
    code:purge(Module).

%% Spans that a process named suspender takes part in.
suspending(Span) ->
    Suspender = spawn_opt(fun suspender/0, [link, {priority, high}]),
    true = register(suspender, Suspender),
    #{span => fun(_, Finish) -> Span(Suspender, Finish) end,
      tidy => fun() -> cause_others:stop(Suspender) end}.

%% A term that takes so long to be read from a table: nobody writes to it meanwhile.
large_term(Nanoseconds) ->
    Elements = 500_000,
    Table = ets:new(trial, []),
    true = ets:insert(Table, {trial, lists:seq(1, Elements)}),
    Took = lists:min([synthetic_work:timed(fun() -> ets:lookup(Table, trial) end) || _ <- lists:seq(1, 5)]),
    true = ets:delete(Table),
    lists:seq(1, round(Elements * Nanoseconds / Took)).

reader(Table, Reading) ->
    receive
        read ->
            ok = atomics:put(Reading, 1, 1),
            _ = ets:lookup(Table, large)
    end,
    reader(Table, Reading).

%% Spans in which a program stops the VM for some time when it reads a line, and prints one
%% when it has let it go on. The time counts from when all threads have stopped.
stopping(Work, Cause, Do) ->
    VM = os:getpid(),
    Program = io_lib:format("read x; kill -STOP ~s; until [ -z \"$(grep -L '^State:.T' /proc/~s/task/*/status)\" ]; do :; done; "
                            "sleep ~.6f; kill -CONT ~s; echo on; read x", [VM, VM, Cause / 1.0e9, VM]),
    Prepared = working(Work, Do),
    Prepared#{before => fun() -> cause_alone:shell(Program) end,
              tidy => fun() -> ok end}.

stop(Program) ->
    true = port_command(Program, <<"go\n">>),
    ok.

gone_on(Program, Patience) ->
    receive {Program, {data, _}} -> true after Patience -> false end.

%% Watches the clock until that is enough; returns the largest step since a time before the
%% VM was stopped. Nothing else stops all of it for so long.
largest_leap(Before, Enough) -> largest_leap(Enough, Before, 0).

largest_leap(Enough, Last, Largest0) ->
    Done = Enough(),
    Now = erlang:monotonic_time(nanosecond),
    Largest = max(Largest0, Now - Last),
    case Done of
        true -> Largest;
        false -> largest_leap(Enough, Now, Largest)
    end.

stop_watch() ->
    Self = self(),
    Before = receive {watch, Watched} -> Now = erlang:monotonic_time(nanosecond), Watched ! watching, Now end,
    Leap = largest_leap(Before, fun() -> receive {enough, From} -> Self ! {tell, From}, true after 0 -> false end end),
    receive {tell, Pid} -> Pid ! {leap, Leap} end,
    stop_watch().

ms(Nanoseconds) -> erlang:convert_time_unit(Nanoseconds, nanosecond, millisecond).

%% Suspends a process for so long, and tells how long that was.
suspender() ->
    receive
        {suspend, Pid, Nanoseconds, Tell} ->
            true = erlang:suspend_process(Pid),
            From = erlang:monotonic_time(nanosecond),
            answer(Nanoseconds div 1_000_000),
            To = erlang:monotonic_time(nanosecond),
            tell(Tell, From, To),
            true = erlang:resume_process(Pid)
    end,
    suspender().

%% Waits for so many ms, and answers who asks meanwhile whether it is at it.
answer(Ms) ->
    Timer = erlang:start_timer(Ms, self(), over),
    answer_until(Timer).

answer_until(Timer) ->
    receive
        {timeout, Timer, over} -> ok;
        {system, {Pid, Ref}, get_state} -> gen:reply({Pid, Ref}, {ok, suspends}), answer_until(Timer)
    end.

tell(Pid, From, To) when is_pid(Pid) -> Pid ! {suspended, From, To};
tell(Atomics, From, To) -> atomics:put(Atomics, 1, To - From).
