%%% @doc A worker of {@link server_pool}.
-module(pool_worker).
-behaviour(gen_server).

-export([start_link/3, work/2, set/3]).
-export([init/1, handle_call/3, handle_cast/2]).

-record(state, {random :: rand:state(),
                loops :: non_neg_integer(), % mean work
                delay :: number()}).        % mean time asleep, ms

-define(MS, 1_000_000). % in ns

-spec start_link(Seed :: term(), Loops :: non_neg_integer(), Delay :: number()) -> pid().
start_link(Seed, Loops, Delay) ->
    {ok, Pid} = gen_server:start_link(?MODULE, {Seed, Loops, Delay}, []),
    Pid.

%% @doc Makes the worker work, and returns when it is done.
-spec work(pid(), timeout()) -> ok.
work(Worker, Patience) ->
    gen_server:call(Worker, work, Patience).

%% @doc Changes the amount of later work.
-spec set(pid(), loops | delay, number()) -> ok.
set(Worker, Key, Value) ->
    gen_server:cast(Worker, {set, Key, Value}).

-spec init({term(), non_neg_integer(), number()}) -> {ok, #state{}}.
init({Seed, Loops, Delay}) ->
    {ok, #state{random = synthetic_work:seed(Seed), loops = Loops, delay = Delay}}.

-spec handle_call(work, gen_server:from(), #state{}) -> {reply, ok, #state{}}.
handle_call(work, _From, #state{random = Random0, loops = Loops, delay = Delay} = State) ->
    {X, Random} = synthetic_work:exponential(Random0),
    synthetic_work:work(round(Loops * X)),
    synthetic_work:wait(erlang:monotonic_time(nanosecond) + round(Delay * X * ?MS)),
    {reply, ok, State#state{random = Random}}.

-spec handle_cast({set, loops | delay, number()}, #state{}) -> {noreply, #state{}}.
handle_cast({set, loops, Loops}, State) -> {noreply, State#state{loops = Loops}};
handle_cast({set, delay, Delay}, State) -> {noreply, State#state{delay = Delay}}.
