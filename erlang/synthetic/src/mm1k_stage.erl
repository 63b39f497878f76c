%%% @doc A queue and its worker.
%%%
%%% The queue lets in what it has places for and passes it on to the worker,
%%% where it waits in the mailbox. The worker gives the place back when done.
-module(mm1k_stage).

-export([start_link/1, arrive/2, set/3, stop/1]).

-export_type([stage/0]).

-type probe() :: {beamscope:span_ctx(), beamscope:handle()}.
-type config() :: #{name := binary(), k := pos_integer(), loops := non_neg_integer(),
                    seed := term(),
                    next := fun((probe()) -> term()),
                    dropped := fun(() -> term())}.
-opaque stage() :: {Queue :: pid(), Worker :: pid()}.

-spec start_link(config()) -> stage().
start_link(#{seed := Seed} = Config) ->
    Queue = spawn_link(fun() -> receive {worker, Worker} -> queue(Worker, 0, Config) end end),
    Worker = spawn_link(fun() -> worker(Queue, synthetic_work:seed(Seed), Config) end),
    Queue ! {worker, Worker},
    {Queue, Worker}.

%% @doc A message arrives, with the span that follows it through the system.
-spec arrive(stage(), probe()) -> ok.
arrive({Queue, _}, Probe) ->
    Queue ! {arrive, Probe},
    ok.

-spec set(stage(), k | loops, non_neg_integer()) -> ok.
set({Queue, _}, Key, Value) ->
    Queue ! {set, Key, Value},
    ok.

-spec stop(stage()) -> ok.
stop({Queue, Worker}) ->
    lists:foreach(fun(Pid) -> unlink(Pid), exit(Pid, shutdown) end, [Queue, Worker]).

queue(Worker, Taken, #{name := Name, k := K, loops := Loops} = Config) ->
    receive
        {arrive, Probe} when Taken < K ->
            Worker ! {work, beamscope:start_span(Name), Probe, Loops},
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

worker(Queue, Random0, #{next := Next} = Config) ->
    receive
        {work, {Ctx, Span}, Probe, Mean} ->
            {X, Random} = synthetic_work:exponential(Random0),
            synthetic_work:work(round(Mean * X)),
            beamscope:end_span(Ctx, Span),
            Queue ! done,
            Next(Probe),
            worker(Queue, Random, Config)
    end.

drop({Ctx, Span}) ->
    beamscope:fail_span(Span, dropped),
    beamscope:end_span(Ctx, ignore).
