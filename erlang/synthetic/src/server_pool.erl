%%% @doc Clients of a pool of servers.
%%%
%%% ```
%%%             +--> client 1 --+             +--> worker 1
%%% source -----+      ...      +---- pool ---+      ...
%%%             +--> client M --+             +--> worker N
%%% '''
%%%
%%% Requests arrive as a Poisson process, at each client in its turn. It checks a worker
%%% out of the pool, calls it, and checks it in. Who finds none free waits for it at the
%%% pool, in the order of arrival. A worker spends an exponentially distributed number of
%%% empty loops on a call, or an exponentially distributed time asleep.
%%%
%%% The outcome `request' is a span, from when the client begins with a request until it
%%% is done with it. Requests wait at their client too, before that: if there are more
%%% than the pool can do they pile up there.
-module(server_pool).

-export([start_link/1, start/1, stop/0, set/2, info/0]).

-export_type([options/0]).

-type options() :: #{rate => number(),         % requests a second
                     loops => non_neg_integer() | auto, % mean work a request; auto is 1 ms of it
                     delay => number(),        % mean time asleep a request besides, ms
                     %% Fixed while it runs:
                     clients => pos_integer(),
                     workers => pos_integer(),
                     seq_trace => boolean(),   % `request' has a token of seq_trace
                     seed => integer()}.       % everything random follows from it

-define(PATIENCE, 60_000). % ms

%% @doc Starts the system. Everything unset is at its default: 400 requests a second, 8
%% clients, 2 workers, 1 ms of work. There is one such system in a VM.
-spec start_link(options()) -> gen_server:start_ret().
start_link(Options) ->
    synthetic_system:start_link(system(), Options).

%% @doc As start_link/1, outliving the caller.
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

%% @doc What is set, and what has happened since the start: requests `sent' and `done'.
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
