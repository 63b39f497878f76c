%%% @doc A queue and its worker.
%%%
%%% The queue accepts messages while it has free places, and passes them to the worker, where
%%% they wait in the mailbox. The worker frees the place when it is done. Two queues may share
%%% a worker, which takes messages in the order of arrival.
-module(mm1k_stage).

-export([start_worker/1, start_link/2, arrive/2, set/3, stop/1]).

-export_type([stage/0]).

-type probe() :: {beamscope:span_ctx(), beamscope:handle()}.
-type config() :: #{name := binary(), k := pos_integer(), loops := non_neg_integer(),
                    delay := number(),
                    next := fun((probe()) -> term()),
                    dropped := fun(() -> term())}.
-opaque stage() :: pid().

-define(MS, 1_000_000). % in ns

%% @doc Starts a worker, linked to the caller. The seed determines all random numbers.
-spec start_worker(Seed :: term()) -> pid().
start_worker(Seed) ->
    spawn_link(fun() -> worker(synthetic_work:seed(Seed)) end).

%% @doc Starts the queue of a stage, with the given worker.
-spec start_link(Worker :: pid(), config()) -> stage().
start_link(Worker, Config) ->
    spawn_link(fun() -> queue(Worker, 0, Config) end).

%% @doc Reports the arrival of a message, with the span that follows it through the system.
-spec arrive(stage(), probe()) -> ok.
arrive(Queue, Probe) ->
    Queue ! {arrive, Probe},
    ok.

-spec set(stage(), k | loops | delay, number()) -> ok.
set(Queue, Key, Value) ->
    Queue ! {set, Key, Value},
    ok.

%% @doc Stops a queue or a worker.
-spec stop(pid()) -> ok.
stop(Pid) ->
    unlink(Pid),
    exit(Pid, shutdown),
    ok.

queue(Worker, Taken, #{name := Name, k := K, loops := Loops, delay := Delay, next := Next} = Config) ->
    receive
        {arrive, Probe} when Taken < K ->
            Self = self(),
            Span = beamscope:start_span(Name),
            Worker ! {work, Loops, Delay, fun() -> done(Span, Self), Next(Probe) end},
            queue(Worker, Taken + 1, Config);
        {arrive, Probe} ->
            drop(beamscope:start_span(Name)),
            drop(Probe),
            (maps:get(dropped, Config))(),
            queue(Worker, Taken, Config);
        done ->
            queue(Worker, Taken - 1, Config);
        {set, Key, Value} ->
            queue(Worker, Taken, Config#{Key := Value})
    end.

worker(Random0) ->
    receive
        {work, Loops, Delay, Done} ->
            {X, Random} = synthetic_work:exponential(Random0),
            synthetic_work:work(round(Loops * X)),
            synthetic_work:wait(erlang:monotonic_time(nanosecond) + round(Delay * X * ?MS)),
            Done(),
            worker(Random)
    end.

done({Ctx, Span}, Queue) ->
    beamscope:end_span(Ctx, Span),
    Queue ! done.

drop({Ctx, Span}) ->
    beamscope:fail_span(Span, dropped),
    beamscope:end_span(Ctx, ignore).
