%%% @doc Two M/M/1/K queues in a row, the system of the oscilloscope's thesis.
%%%
%%% ```
%%% source --> queue 1 <-> worker 1 --> queue 2 <-> worker 2
%%% '''
%%%
%%% Messages arrive as a Poisson process. A queue has room for K messages,
%%% the one being worked on included; one more is dropped. A worker spends an
%%% exponentially distributed number of empty loops on each.
%%%
%%% Three outcomes are spans: `worker_1' and `worker_2', from the arrival at the
%%% stage's queue until its worker is done, and `probe', from the source until
%%% worker 2 is done. What is dropped fails, with class `dropped'.
-module(mm1k).

-export([start_link/1, start/1, stop/0, set/2, info/0]).

-export_type([options/0]).

-type options() :: #{rate => number(),                % messages a second
                     k => pos_integer(),              % places in each queue
                     loops => non_neg_integer() | auto, % mean work a message; auto is 1 ms of it
                     seed => integer()}.              % everything random follows from it

%% @doc Starts the system. Everything unset is at its default: 400 messages a
%% second, 10 places, 1 ms of work. There is one such system in a VM.
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

%% @doc Changes the system while it runs. A message that waits already keeps the
%% loops it arrived with.
-spec set(rate | k | loops, number() | auto) -> ok | {error, Why :: term()}.
set(Key, Value) ->
    synthetic_system:set(?MODULE, Key, Value).

%% @doc What is set, and what has happened since the start: messages `sent',
%% `dropped_1' and `dropped_2' at the queues, `done' at the end.
-spec info() -> #{atom() => term()}.
info() ->
    synthetic_system:info(?MODULE).

system() ->
    #{name => ?MODULE,
      %% At these, each worker is busy 40 % of the time: together they take less than
      %% a core, and a busier moment of the machine does not make them overflow.
      defaults => #{rate => 400, k => 10, loops => auto},
      value => fun value/2,
      counts => [dropped_1, dropped_2, done],
      build => fun build/2}.

value(k, K) when is_integer(K), K > 0 -> {ok, K};
value(loops, auto) -> {ok, synthetic_work:loops(1_000_000)};
value(loops, Loops) when is_integer(Loops), Loops >= 0 -> {ok, Loops};
value(_, _) -> error.

build(Options, Count) ->
    Stage2 = stage(2, dropped_2, Options, Count, fun(Probe) -> end_probe(Probe), Count(done) end),
    Stage1 = stage(1, dropped_1, Options, Count, fun(Probe) -> mm1k_stage:arrive(Stage2, Probe) end),
    Stages = [Stage1, Stage2],
    #{send => fun() -> mm1k_stage:arrive(Stage1, beamscope:start_span(<<"probe">>)) end,
      change => fun(Key, Value) -> lists:foreach(fun(S) -> mm1k_stage:set(S, Key, Value) end, Stages) end,
      stop => fun() -> lists:foreach(fun mm1k_stage:stop/1, Stages) end}.

stage(N, Dropped, #{k := K, loops := Loops, seed := Seed}, Count, Next) ->
    mm1k_stage:start_link(#{name => <<"worker_", ($0 + N)>>, k => K, loops => Loops,
                            seed => {Seed, N}, next => Next,
                            dropped => fun() -> Count(Dropped) end}).

end_probe({Ctx, Span}) -> beamscope:end_span(Ctx, Span).
