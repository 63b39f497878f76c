%%% @doc The pool of {@link server_pool}: it lends each worker to one client at a time.
-module(pool).
-behaviour(gen_server).

-export([start_link/1, check_out/2, check_in/2]).
-export([init/1, handle_call/3, handle_cast/2]).

-record(state, {free :: [pid()],
                waiting = queue:new() :: queue:queue(gen_server:from())}). % empty while there are free workers

%% @doc Starts and registers the pool, with the given workers.
-spec start_link([pid()]) -> pid().
start_link(Workers) ->
    {ok, Pid} = gen_server:start_link({local, ?MODULE}, ?MODULE, Workers, []),
    Pid.

%% @doc Returns a worker. If none is free, it waits.
-spec check_out(pid(), timeout()) -> pid().
check_out(Pool, Patience) ->
    gen_server:call(Pool, check_out, Patience).

%% @doc Returns a worker to the pool.
-spec check_in(pid(), Worker :: pid()) -> ok.
check_in(Pool, Worker) ->
    gen_server:cast(Pool, {check_in, Worker}).

-spec init([pid()]) -> {ok, #state{}}.
init(Workers) -> {ok, #state{free = Workers}}.

-spec handle_call(check_out, gen_server:from(), #state{}) -> {reply, pid(), #state{}} | {noreply, #state{}}.
handle_call(check_out, _From, #state{free = [Worker | Free]} = State) ->
    {reply, Worker, State#state{free = Free}};
handle_call(check_out, From, #state{free = [], waiting = Waiting} = State) ->
    {noreply, State#state{waiting = queue:in(From, Waiting)}}.

-spec handle_cast({check_in, pid()}, #state{}) -> {noreply, #state{}}.
handle_cast({check_in, Worker}, #state{free = Free, waiting = Waiting0} = State) ->
    case queue:out(Waiting0) of
        {empty, _} ->
            {noreply, State#state{free = [Worker | Free]}};
        {{value, First}, Waiting} ->
            gen_server:reply(First, Worker),
            {noreply, State#state{waiting = Waiting}}
    end.
