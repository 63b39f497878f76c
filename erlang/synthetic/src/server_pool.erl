%%% @doc Clients of a pool of servers.
%%%
%%% ```
%%%             +--> client 1 --+             +--> worker 1
%%% source -----+      ...      +---- pool ---+      ...
%%%             +--> client M --+             +--> worker N
%%% '''
%%%
%%% Requests arrive as a Poisson process, at each client in turn. The client checks a worker
%%% out of the pool, calls it, and checks it in again. If no worker is free, the client waits
%%% at the pool. Waiting clients get workers in the order of arrival. For each call, a worker
%%% spends an exponentially distributed number of empty loops, or sleeps for an exponentially
%%% distributed time.
%%%
%%% The outcome `request' is a span. It lasts from the time at which the client begins with a
%%% request until the request is done. Before that, requests wait at their client. If there are
%%% more requests than the pool can handle, they pile up there.
-module(server_pool).

-export([start_link/1, start/1, stop/0, set/2, info/0]).

-export_type([options/0]).

-type options() :: #{rate => number(),         % requests per second
                     loops => non_neg_integer() | auto, % mean work per request; auto means 1 ms
                     delay => number(),        % mean additional sleep per request, ms
                     %% Fixed while it runs:
                     clients => pos_integer(),
                     workers => pos_integer(),
                     seq_trace => boolean(),   % `request' has a token of seq_trace
                     seed => integer()}.       % determines all random numbers

-define(PATIENCE, 60_000). % ms

%% @doc Starts the system. The defaults are 400 requests per second, 8 clients, 2 workers and 1
%% ms of work. Only one such system can run in a VM.
-spec start_link(options()) -> gen_server:start_ret().
start_link(Options) ->
    synthetic_system:start_link(system(), Options).

%% @doc Like start_link/1, but the system outlives the caller.
-spec start(options()) -> gen_server:start_ret().
start(Options) ->
    synthetic_system:start(system(), Options).

-spec stop() -> ok.
stop() ->
    synthetic_system:stop(?MODULE).

%% @doc Changes the system while it runs.
-spec set(rate | loops | delay, number() | auto) -> ok | {error, Why :: term()}.
set(Key, Value) ->
    synthetic_system:set(?MODULE, Key, Value).

%% @doc Returns the options, and counts since the start: requests `sent' and `done'.
-spec info() -> #{atom() => term()}.
info() ->
    synthetic_system:info(?MODULE).

system() ->
    #{name => ?MODULE,
      defaults => #{rate => 400, loops => auto, delay => 0, clients => 8, workers => 2, seq_trace => false},
      value => fun value/2,
      counts => [done],
      build => fun build/2}.

value(Key, N) when Key =:= clients orelse Key =:= workers, is_integer(N), N > 0, N =< 1000 -> {ok, N};
value(loops, auto) -> {ok, synthetic_work:loops(1_000_000)};
value(loops, Loops) when is_integer(Loops), Loops >= 0 -> {ok, Loops};
value(delay, Delay) when is_number(Delay), Delay >= 0, Delay =< 60_000 -> {ok, Delay};
value(seq_trace, SeqTrace) when is_boolean(SeqTrace) -> {ok, SeqTrace};
value(_, _) -> error.

build(#{clients := M, workers := N, loops := Loops, delay := Delay, seed := Seed, seq_trace := SeqTrace}, Count) ->
    Workers = [pool_worker:start_link({Seed, I}, Loops, Delay) || I <- lists:seq(1, N)],
    Pool = pool:start_link(Workers),
    Attrs = #{seq_trace => SeqTrace},
    Clients = list_to_tuple([spawn_link(fun() -> client(Pool, Attrs, Count) end) || _ <- lists:seq(1, M)]),
    Turn = atomics:new(1, []),
    #{send => fun() -> element(1 + atomics:add_get(Turn, 1, 1) rem M, Clients) ! request end,
      change => fun(Key, Value) when Key =:= loops; Key =:= delay ->
                        lists:foreach(fun(Worker) -> pool_worker:set(Worker, Key, Value) end, Workers);
                   (Key, _) -> {error, {fixed, Key}}
                end,
      stop => fun() -> lists:foreach(fun end_part/1, tuple_to_list(Clients) ++ [Pool | Workers]) end}.

client(Pool, Attrs, Count) ->
    receive
        request ->
            beamscope:with_span(<<"request">>, fun() -> request(Pool) end, Attrs),
            Count(done)
    end,
    client(Pool, Attrs, Count).

request(Pool) ->
    Worker = pool:check_out(Pool, ?PATIENCE),
    ok = pool_worker:work(Worker, ?PATIENCE),
    pool:check_in(Pool, Worker).

end_part(Pid) ->
    unlink(Pid),
    exit(Pid, shutdown).
