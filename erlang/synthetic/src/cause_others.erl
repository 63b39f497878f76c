%%% @doc Causes for {@link causes} that lie in the actions of other processes. These processes
%%% are registered with the names given here.
%%%
%%% `mailbox': `slow_server' first has to handle many earlier messages. `busy_server': the same
%%% server works for `other_client'. `callee': the server `middle' calls the server
%%% `slow_callee', which works. `lock': the server `lock' grants a lock only when `holder',
%%% which works, has released it. `handed_over': the span passes through `queue_1' and
%%% `queue_2' to `last', which works and ends the span. `queue_2' first has to handle many
%%% earlier messages.
-module(cause_others).

-export([scenarios/0, prepare/2, start/2, stop/1]).

-export_type([scenario/0]).

-type scenario() :: mailbox | busy_server | callee | lock | handed_over.

-define(PATIENCE, 60_000). % ms

-spec scenarios() -> [scenario()].
scenarios() ->
    [mailbox, busy_server, callee, lock, handed_over].

-spec prepare(scenario(), causes:config()) -> causes:prepared().
prepare(mailbox, #{work := Work, cause := Cause, messages := Messages}) ->
    Server = cause_server:start_link(slow_server),
    #{before => fun() -> [cause_server:work(Server, Cause div Messages) || _ <- lists:seq(1, Messages)] end,
      span => fun(_, Finish) -> until_taken(Server, Work, Finish) end,
      tidy => fun() -> stop(Server) end};
prepare(busy_server, #{work := Work, cause := Cause}) ->
    Server = cause_server:start_link(slow_server),
    Other = start(other_client, fun() -> other_client(Server, Cause) end),
    #{before => fun() -> Other ! {go, self()}, receive at_work -> ok end end,
      span => fun(_, Finish) -> until_taken(Server, Work, Finish) end,
      tidy => fun() -> stop(Other), stop(Server) end};
prepare(callee, #{work := Work, cause := Cause}) ->
    Callee = cause_server:start_link(slow_callee),
    Middle = cause_server:start_link(middle),
    #{span => fun(_, Finish) ->
                      synthetic_work:busy(Work),
                      Took = gen_server:call(Middle, {ask, Callee, {work, Cause}}, ?PATIENCE),
                      {Finish(), Took}
              end,
      tidy => fun() -> stop(Middle), stop(Callee) end};
prepare(lock, #{work := Work, cause := Cause}) ->
    Lock = cause_lock:start_link(lock),
    Holder = start(holder, fun() -> holder(Lock, Cause) end),
    #{before => fun() -> Holder ! {hold, self()}, receive holding -> ok end end,
      span => fun(_, Finish) ->
                      Took = synthetic_work:timed(fun() -> cause_lock:acquire(Lock, ?PATIENCE) end),
                      synthetic_work:busy(Work),
                      cause_lock:release(Lock),
                      {Finish(), Took}
              end,
      tidy => fun() -> stop(Holder), stop(Lock) end};
prepare(handed_over, #{work := Work, cause := Cause, messages := Messages}) ->
    Last = start(last, fun() -> last(Work) end),
    Queue2 = start(queue_2, fun() -> queue(Last) end),
    Queue1 = start(queue_1, fun() -> queue(Queue2) end),
    #{before => fun() -> [Queue2 ! {work, Cause div Messages} || _ <- lists:seq(1, Messages)] end,
      span => fun(_, Finish) ->
                      Queue1 ! {pass, now_ns(), [], {self(), Finish}},
                      receive {ended, To, [_Queue1, Waited, _Last]} -> {To, Waited} end
              end,
      tidy => fun() -> lists:foreach(fun stop/1, [Queue1, Queue2, Last]) end}.

%% The cause is the time from the request until the server begins to handle it.
until_taken(Server, Work, Finish) ->
    Asked = now_ns(),
    Taken = gen_server:call(Server, now, ?PATIENCE),
    synthetic_work:busy(Work),
    {Finish(), Taken - Asked}.

other_client(Server, Cause) ->
    receive {go, From} -> gen_server:call(Server, {work, Cause, From}, ?PATIENCE) end,
    other_client(Server, Cause).

holder(Lock, Cause) ->
    receive
        {hold, From} ->
            ok = cause_lock:acquire(Lock, ?PATIENCE),
            From ! holding,
            synthetic_work:busy(Cause),
            cause_lock:release(Lock)
    end,
    holder(Lock, Cause).

queue(Next) ->
    receive
        {work, Nanoseconds} -> synthetic_work:busy(Nanoseconds);
        {pass, Sent, Waits, Span} -> Next ! {pass, now_ns(), [now_ns() - Sent | Waits], Span}
    end,
    queue(Next).

last(Work) ->
    receive
        {pass, Sent, Waits, {From, Finish}} ->
            Waited = now_ns() - Sent,
            synthetic_work:busy(Work),
            From ! {ended, Finish(), lists:reverse(Waits, [Waited])}
    end,
    last(Work).

%% @doc Starts a process with the given name, linked to the caller.
-spec start(atom(), fun(() -> no_return())) -> pid().
start(Name, Fun) ->
    Pid = spawn_link(Fun),
    true = register(Name, Pid),
    Pid.

%% @doc Stops a process, which may be linked to the caller. Its name is then free.
-spec stop(pid()) -> ok.
stop(Pid) ->
    Monitor = monitor(process, Pid),
    unlink(Pid),
    exit(Pid, kill),
    receive {'DOWN', Monitor, process, Pid, _} -> ok end.

now_ns() -> erlang:monotonic_time(nanosecond).
