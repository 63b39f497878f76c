%%% @doc Causes for {@link causes} in which the VM or another process stops a process, although
%%% the process neither does anything slow nor waits for another one.
%%%
%%% `persistent_term', `code': the process changes a persistent term, or loads a module, and
%%% has to wait until all schedulers have taken note. The thread of one of them sleeps in a
%%% native function of the VM.
%%%
%%% `suspended', `suspended_running', `suspended_ready': another process, registered as
%%% `suspender', suspends the process: while it waits for a message, while it runs, and while
%%% it waits for the only scheduler. `suspended_server': the process calls the server
%%% `slow_callee', which is suspended.
%%%
%%% `native_sleep': a native function of the VM sleeps, and blocks the scheduler's thread.
%%% `table_lock': another process reads a large term from a table and blocks all writers. The
%%% time for which the waiting thread itself ran is not counted. `stopped', `stopped_waiting':
%%% a signal stops the VM, while the process works, or while it waits for a time that has
%%% passed when the VM continues.
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
        while_asleep(Config, fun() -> none end,
                         fun(_) -> ok = persistent_term:put(?MODULE, erlang:unique_integer()) end),
    Prepared#{tidy := fun() -> Tidy(), persistent_term:erase(?MODULE) end};
prepare(code, Config) ->
    {ok, Module, Code} = compile:forms([{attribute, 1, module, ?MODULE_LOADED}, {eof, 2}]),
    Prepared = #{tidy := Tidy} =
        while_asleep(Config,
                         fun() -> unload(Module), erlang:prepare_loading(Module, Code) end,
                         fun(Loadable) -> ok = erlang:finish_loading([Loadable]) end),
    Prepared#{tidy := fun() -> Tidy(), unload(Module) end};
prepare(suspended, #{work := Work, cause := Cause}) ->
    suspending(fun(Suspender, Finish) ->
                       synthetic_work:busy(Work),
                       Suspender ! {suspend, self(), Cause, self()},
                       receive suspended -> ok end,
                       {Finish(), suspended(Suspender)}
               end);
prepare(suspended_running, #{work := Work, cause := Cause}) ->
    suspending(fun(Suspender, Finish) ->
                       synthetic_work:busy(Work),
                       Over = atomics:new(1, []),
                       Suspender ! {suspend, self(), Cause, Over},
                       until_set(Over),
                       {Finish(), suspended(Suspender)}
               end);
prepare(suspended_ready, #{work := Work, cause := Cause}) ->
    Restore = cause_alone:one_scheduler(),
    Prepared = #{tidy := Tidy} =
        suspending(fun(Suspender, Finish) ->
                           synthetic_work:busy(Work),
                           Suspender ! {suspend, self(), Cause, atomics:new(1, [])},
                           true = erlang:yield(),
                           {Finish(), suspended(Suspender)}
                   end),
    Prepared#{tidy := fun() -> Tidy(), Restore() end};
prepare(native_sleep, #{work := Work, cause := Cause}) ->
    Restore = native_functions(),
    Prepared = working(Work, fun(_) -> synthetic_work:timed(fun() -> native_sleep(Cause) end) end),
    Prepared#{tidy => Restore};
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
                                      receive watching -> ok end, % otherwise part of the stop would be missed
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
                           _ = sys:get_state(Suspender), % now the server is suspended
                           Asked = erlang:monotonic_time(nanosecond),
                           _ = gen_server:call(Callee, now, ?PATIENCE),
                           receive suspended -> ok end,
                           To = Finish(),
                           #{suspends := From, resumed := Until} = times(Suspender),
                           {To, max(0, Until - max(From, Asked))} % it may be over before the call
                   end),
    Prepared#{tidy := fun() -> Tidy(), cause_others:stop(Callee) end}.

%% Spans that begin with work and then call Do.
working(Work, Do) ->
    #{span => fun(State, Finish) ->
                      synthetic_work:busy(Work),
                      Took = Do(State),
                      {Finish(), Took}
              end}.

%% Spans in which a process calls Do while the thread of a scheduler sleeps for the configured
%% cause.
while_asleep(#{work := Work, cause := Cause}, Before, Do) ->
    Restore = native_functions(),
    Asleep = atomics:new(1, []),
    _ = process_flag(scheduler, 1),
    Sleeper = spawn_opt(fun() -> sleeper(Cause, Asleep) end, [link, {scheduler, 2}]),
    #{before => fun() ->
                        ok = atomics:put(Asleep, 1, 0),
                        Before()
                end,
      span => fun(State, Finish) ->
                      synthetic_work:busy(Work),
                      Sleeper ! sleep,
                      until_set(Asleep),
                      Took = synthetic_work:timed(fun() -> Do(State) end),
                      {Finish(), Took}
              end,
      tidy => fun() -> cause_others:stop(Sleeper), Restore() end}.

sleeper(Nanoseconds, Asleep) ->
    receive
        sleep ->
            ok = atomics:put(Asleep, 1, 1),
            native_sleep(Nanoseconds)
    end,
    sleeper(Nanoseconds, Asleep).

%% Makes functions for tests of the VM available. Returns a function that restores that.
native_functions() ->
    Were = erts_debug:set_internal_state(available_internal_state, true),
    fun() -> Were =:= true orelse erts_debug:set_internal_state(available_internal_state, false) end.

native_sleep(Nanoseconds) -> true = erts_debug:set_internal_state(sleep, ms(Nanoseconds)).

until_set(Atomics) ->
    atomics:get(Atomics, 1) =/= 0 orelse until_set(Atomics).

unload(Module) ->
    _ = code:purge(Module),
    _ = code:delete(Module),
    code:purge(Module).

%% Spans that involve a process named suspender.
suspending(Span) ->
    Suspender = spawn_opt(fun suspender/0, [link, {priority, high}]),
    true = register(suspender, Suspender),
    #{span => fun(_, Finish) -> Span(Suspender, Finish) end,
      tidy => fun() -> cause_others:stop(Suspender) end}.

%% A term that takes the given time to read from a table. The read blocks all writers.
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

%% Spans in which a program stops the VM for some time. It begins when it reads a line, and
%% prints a line after it has resumed the VM. The time counts from the moment at which all
%% threads have stopped.
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

%% Watches the clock until Enough returns true. Returns the largest step, beginning before the
%% VM was stopped. Nothing else stops the whole VM for that long.
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

%% Suspends a process for the given time. Reports just before it resumes the process, and then
%% reports all times.
suspender() ->
    receive
        {suspend, Pid, Nanoseconds, Tell} ->
            Suspends = erlang:monotonic_time(nanosecond),
            true = erlang:suspend_process(Pid),
            Held = erlang:monotonic_time(nanosecond),
            answer(Nanoseconds div 1_000_000),
            Resumes = erlang:monotonic_time(nanosecond),
            Client = tell(Tell, Pid),
            true = erlang:resume_process(Pid),
            Resumed = erlang:monotonic_time(nanosecond),
            Client ! {self(), #{suspends => Suspends, held => Held, resumes => Resumes, resumed => Resumed}};
        {system, From, get_state} -> % the suspension is over
            gen:reply(From, {ok, idle})
    end,
    suspender().

times(Suspender) ->
    receive {Suspender, Times} -> Times end.

%% Reports that the calling process was suspended. Returns the longest possible duration,
%% because the suspender may be held up while it suspends and resumes.
suspended(Suspender) ->
    #{suspends := Suspends, held := Held, resumes := Resumes, resumed := Resumed} = times(Suspender),
    ok = truth:tell(suspended, Suspender, Held, Resumes, Resumes),
    Resumed - Suspends.

%% Waits for Ms milliseconds. Meanwhile it answers sys:get_state calls, which show that the
%% suspension has begun.
answer(Ms) ->
    Timer = erlang:start_timer(Ms, self(), over),
    answer_until(Timer).

answer_until(Timer) ->
    receive
        {timeout, Timer, over} -> ok;
        {system, {Pid, Ref}, get_state} -> gen:reply({Pid, Ref}, {ok, suspends}), answer_until(Timer)
    end.

%% Returns the process that asked for the suspension.
tell(Client, _) when is_pid(Client) -> Client ! suspended, Client;
tell(Atomics, Suspended) -> ok = atomics:put(Atomics, 1, 1), Suspended.
