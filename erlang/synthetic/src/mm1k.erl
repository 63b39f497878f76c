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
-behaviour(gen_server).

-export([start_link/1, start/1, stop/0, set/2, info/0]).
-export([init/1, handle_call/3, handle_cast/2, terminate/2]).

-export_type([options/0]).

-type options() :: #{rate => number(),                % messages a second
                     k => pos_integer(),              % places in each queue
                     loops => non_neg_integer() | auto, % mean work a message; auto is 1 ms of it
                     seed => integer()}.              % everything random follows from it

%% At these, each worker is busy 40 % of the time: together they take less than a
%% core, and a busier moment of the machine does not make them overflow.
-define(DEFAULTS, #{rate => 400, k => 10, loops => auto}).

-record(state, {options :: map(),
                counts :: counters:counters_ref(),
                source :: pid(),
                stages :: [mm1k_stage:stage()]}).

%% @doc Starts the system. Everything unset is at its default: 400 messages a
%% second, 10 places, 1 ms of work. There is one such system in a VM.
-spec start_link(options()) -> gen_server:start_ret().
start_link(Options) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, Options, []).

%% @doc As start_link/1, outliving the caller.
-spec start(options()) -> gen_server:start_ret().
start(Options) ->
    gen_server:start({local, ?MODULE}, ?MODULE, Options, []).

-spec stop() -> ok.
stop() ->
    gen_server:stop(?MODULE).

%% @doc Changes the system while it runs. A message that waits already keeps the
%% loops it arrived with.
-spec set(rate | k | loops, number() | auto) -> ok | {error, Why :: term()}.
set(Key, Value) ->
    gen_server:call(?MODULE, {set, Key, Value}).

%% @doc What is set, and what has happened since the start: messages `sent',
%% `dropped_1' and `dropped_2' at the queues, `done' at the end.
-spec info() -> #{atom() => term()}.
info() ->
    gen_server:call(?MODULE, info).

-spec init(options()) -> {ok, #state{}} | {stop, term()}.
init(Options0) ->
    process_flag(trap_exit, true),
    Options = maps:merge(?DEFAULTS, Options0),
    case [Bad || {Key, Value} <- maps:to_list(Options), {error, _} = Bad <- [check(Key, Value)]] of
        [] -> {ok, build(resolve(Options))};
        [{error, Why} | _] -> {stop, Why}
    end.

build(#{k := K, loops := Loops, rate := Rate} = Options) ->
    Seed = maps:get(seed, Options, erlang:unique_integer()),
    Counts = counters:new(4, [write_concurrency]),
    Config = fun(N, Next) ->
                     #{name => <<"worker_", ($0 + N)>>, k => K, loops => Loops,
                       seed => {Seed, N}, next => Next,
                       dropped => fun() -> counters:add(Counts, 1 + N, 1) end}
             end,
    Stage2 = mm1k_stage:start_link(Config(2, fun(Probe) ->
                                                     end_probe(Probe),
                                                     counters:add(Counts, 4, 1)
                                             end)),
    Stage1 = mm1k_stage:start_link(Config(1, fun(Probe) -> mm1k_stage:arrive(Stage2, Probe) end)),
    Source = synthetic_source:start_link(Rate, {Seed, 0},
                                    fun() ->
                                            counters:add(Counts, 1, 1),
                                            mm1k_stage:arrive(Stage1, beamscope:start_span(<<"probe">>))
                                    end),
    #state{options = Options, counts = Counts, source = Source, stages = [Stage1, Stage2]}.

end_probe({Ctx, Span}) -> beamscope:end_span(Ctx, Span).

-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, term(), #state{}}.
handle_call({set, Key, Value0}, _From, State) ->
    case check(Key, Value0) of
        ok when Key =/= seed ->
            #{Key := Value} = Options = resolve((State#state.options)#{Key => Value0}),
            change(Key, Value, State),
            {reply, ok, State#state{options = Options}};
        ok ->
            {reply, {error, {fixed, Key}}, State};
        Error ->
            {reply, Error, State}
    end;
handle_call(info, _From, #state{options = Options, counts = Counts} = State) ->
    [Sent, Dropped1, Dropped2, Done] = [counters:get(Counts, N) || N <- [1, 2, 3, 4]],
    {reply, Options#{sent => Sent, dropped_1 => Dropped1, dropped_2 => Dropped2, done => Done}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_, State) ->
    {noreply, State}.

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, #state{source = Source, stages = Stages}) ->
    exit(Source, shutdown),
    lists:foreach(fun mm1k_stage:stop/1, Stages).

change(rate, Rate, #state{source = Source}) -> synthetic_source:set(Source, Rate);
change(Key, Value, #state{stages = Stages}) -> lists:foreach(fun(S) -> mm1k_stage:set(S, Key, Value) end, Stages).

resolve(#{loops := auto} = Options) -> Options#{loops := synthetic_work:loops(1_000_000)};
resolve(Options) -> Options.

check(rate, Rate) when is_number(Rate), Rate >= 0 -> ok;
check(k, K) when is_integer(K), K > 0 -> ok;
check(loops, auto) -> ok;
check(loops, Loops) when is_integer(Loops), Loops >= 0 -> ok;
check(seed, Seed) when is_integer(Seed) -> ok;
check(Key, Value) -> {error, {bad_option, Key, Value}}.
