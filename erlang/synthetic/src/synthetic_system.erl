%%% @doc The common part of the synthetic systems: a Poisson source, options that can be
%%% changed while the system runs, and counts of events.
%%%
%%% A map describes a system, see system(). In a VM, only one system of each name can run. The
%%% parts of a system are processes linked to the process of this module, so all of them end
%%% together.
-module(synthetic_system).
-behaviour(gen_server).

-export([start_link/2, start/2, stop/1, set/3, info/1]).
-export([init/1, handle_call/3, handle_cast/2, terminate/2]).

-export_type([system/0, running/0, options/0, count/0]).

-type options() :: #{atom() => term()}. % all systems have `rate' and `seed'
-type count() :: fun((Name :: atom()) -> ok).

-type system() :: #{name := atom(),
                    defaults := options(), % the default of every option except `seed'
                    %% Checks the value of a system-specific option, and converts it.
                    value := fun((Key :: atom(), Value :: term()) -> {ok, term()} | error),
                    counts := [atom()],    % the names of the counters, in addition to `sent'
                    build := fun((options(), count()) -> running())}.

-type running() :: #{send := fun(() -> term()), % called for each message of the source
                     %% Passes a new value to the parts.
                     change := fun((Key :: atom(), Value :: term()) -> ok | {error, {fixed, Key :: atom()}}),
                     stop := fun(() -> ok)}.

-record(state, {value :: fun((atom(), term()) -> {ok, term()} | error),
                options :: options(),
                names :: [atom()],
                counts :: counters:counters_ref(), % in the order of the names
                source :: pid(),
                running :: running()}).

-spec start_link(system(), options()) -> gen_server:start_ret().
start_link(#{name := Name} = System, Options) ->
    gen_server:start_link({local, Name}, ?MODULE, {System, Options}, []).

%% @doc Like start_link/2, but the system outlives the caller.
-spec start(system(), options()) -> gen_server:start_ret().
start(#{name := Name} = System, Options) ->
    gen_server:start({local, Name}, ?MODULE, {System, Options}, []).

-spec stop(Name :: atom()) -> ok.
stop(Name) ->
    gen_server:stop(Name).

%% @doc Changes the system while it runs.
-spec set(Name :: atom(), Key :: atom(), Value :: term()) -> ok | {error, Why :: term()}.
set(Name, Key, Value) ->
    gen_server:call(Name, {set, Key, Value}).

%% @doc Returns the options, and the counts since the start.
-spec info(Name :: atom()) -> #{atom() => term()}.
info(Name) ->
    gen_server:call(Name, info).

-spec init({system(), options()}) -> {ok, #state{}} | {stop, term()}.
init({#{defaults := Defaults, value := Own} = System, Options0}) ->
    Seed = rand:uniform(1 bsl 32),
    case values(Own, maps:to_list(maps:merge(Defaults#{seed => Seed}, Options0)), #{}) of
        {ok, Options} -> {ok, build(System, Options)};
        {error, Why} -> {stop, Why}
    end.

values(_Own, [], Options) ->
    {ok, Options};
values(Own, [{Key, Value0} | Rest], Options) ->
    case value(Own, Key, Value0) of
        {ok, Value} -> values(Own, Rest, Options#{Key => Value});
        Error -> Error
    end.

value(_Own, rate, Rate) when is_number(Rate), Rate >= 0 -> {ok, Rate};
value(_Own, seed, Seed) when is_integer(Seed) -> {ok, Seed};
value(Own, Key, Value) ->
    case Own(Key, Value) of
        error -> {error, {bad_option, Key, Value}};
        Ok -> Ok
    end.

build(#{value := Own, counts := Counted, build := Build}, #{rate := Rate, seed := Seed} = Options) ->
    Names = [sent | Counted],
    Counts = counters:new(length(Names), [write_concurrency]),
    Indices = maps:from_list(lists:zip(Names, lists:seq(1, length(Names)))),
    Count = fun(Name) -> counters:add(Counts, maps:get(Name, Indices), 1) end,
    #{send := Send} = Running = Build(Options, Count),
    Source = synthetic_source:start_link(Rate, {Seed, 0}, fun() -> Count(sent), Send() end),
    #state{value = Own, options = Options, names = Names, counts = Counts,
           source = Source, running = Running}.

-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, term(), #state{}}.
handle_call({set, Key, Value0}, _From, #state{value = Own} = State0) ->
    case value(Own, Key, Value0) of
        {ok, Value} ->
            {Reply, State} = change(Key, Value, State0),
            {reply, Reply, State};
        Error ->
            {reply, Error, State0}
    end;
handle_call(info, _From, #state{options = Options, names = Names, counts = Counts} = State) ->
    Values = [counters:get(Counts, N) || N <- lists:seq(1, length(Names))],
    {reply, maps:merge(Options, maps:from_list(lists:zip(Names, Values))), State}.

change(Key, Value, #state{options = Options} = State) ->
    case pass_on(Key, Value, State) of
        ok -> {ok, State#state{options = Options#{Key := Value}}};
        Error -> {Error, State}
    end.

pass_on(seed, _, _) -> {error, {fixed, seed}};
pass_on(rate, Rate, #state{source = Source}) -> synthetic_source:set(Source, Rate);
pass_on(Key, Value, #state{running = #{change := Change}}) -> Change(Key, Value).

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_, State) ->
    {noreply, State}.

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, #state{source = Source, running = #{stop := Stop}}) ->
    synthetic_source:stop(Source),
    Stop().
