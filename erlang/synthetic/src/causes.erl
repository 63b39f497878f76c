%%% @doc Spans that are slow for a known cause, to test whether the cause is found.
%%%
%%% A scenario runs spans one after the other in its own process. Each span works a little, and
%%% is slowed down by the cause for several times as long. The clocks of the processes
%%% concerned measure how long the cause took, without any probe. An analysis should attribute
%%% that part of the span to the cause.
%%%
%%% {@link cause_alone} contains the scenarios that involve only the process itself.
%%% {@link cause_others}, {@link cause_vm}, {@link cause_waits} and {@link cause_met} contain
%%% the others. In the last two, the processes also report what they did. The process that
%%% starts the spans is registered as `slow_span'. Only one scenario can run at a time in a VM.
-module(causes).

-export([run/2, run_all/2, scenarios/0]).

-export_type([scenario/0, options/0, config/0, prepared/0, finish/0, result/0]).

-type scenario() :: cause_alone:scenario() | cause_others:scenario() | cause_vm:scenario() | cause_waits:scenario() | cause_met:scenario().

-type options() :: #{spans => pos_integer(),     % the number of spans (1)
                     name => beamscope:name(),   % the name of the outcome (<<"slow">>)
                     work => pos_integer(),      % work in each span, in ms (5)
                     cause => pos_integer(),     % the approximate time of the cause, in ms (50)
                     messages => pos_integer(),  % the number of messages in full mailboxes and queues (100)
                     seq_trace => boolean()}.    % as with beamscope (false)

-type config() :: #{work := Ns :: pos_integer(), cause := Ns :: pos_integer(), messages := pos_integer()}.

-type prepared() :: #{before => fun(() -> State),     % called before each span
                      span := fun((State, finish()) -> {EndNs :: integer(), CauseNs :: integer()}),
                      tidy => fun(() -> term())}.    % called at the end
%% Functions that make spans slow, for the process that starts the spans. The result of
%% `before' is the first argument of `span'.

-type finish() :: fun(() -> EndNs :: integer()).
%% Ends the span, in the process that calls it, and returns the time.

-type result() :: #{pid := pid(),                % the process that ran the spans
                    spans := pos_integer(),
                    duration := Ns :: integer(), % of all spans together, including the cause
                    cause := Ns :: integer(),
                    each := [{Id :: non_neg_integer(), DurationNs :: integer(), CauseNs :: integer()}],
                    spans_from := [integer()],   % when each span began
                    told := [truth:phase()]}.    % what processes did, if they report it
%% Id is 0 if the span was not traced. Times are erlang:monotonic_time(nanosecond).

-define(MS, 1_000_000). % in ns

-spec scenarios() -> [scenario()].
scenarios() ->
    lists:append([Module:scenarios() || Module <- modules()]).

modules() -> [cause_alone, cause_others, cause_vm, cause_waits, cause_met].

%% @doc Carries out scenarios, one after the other.
-spec run_all([scenario()], options()) -> [result()].
run_all(Scenarios, Options) ->
    [run(Scenario, Options) || Scenario <- Scenarios].

%% @doc Carries out a scenario, and returns when it has finished.
-spec run(scenario(), options()) -> result().
run(Scenario, Options0) ->
    #{spans := Spans, name := Name, seq_trace := SeqTrace} = Options = maps:merge(defaults(), Options0),
    #{work := Work, cause := Cause, messages := Messages} = Options,
    Config = #{work => Work * ?MS, cause => Cause * ?MS, messages => Messages},
    Module = module(Scenario),
    Start = fun() -> beamscope:start_span(Name, #{seq_trace => SeqTrace}) end,
    ok = truth:begin_telling(),
    {Pid, Monitor} = spawn_monitor(fun() ->
                                           true = register(slow_span, self()),
                                           exit({each, each(Spans, Start, Module:prepare(Scenario, Config))})
                                   end),
    receive {'DOWN', Monitor, process, Pid, Why} -> result(Pid, Why, truth:end_telling()) end.

result(Pid, {each, All}, Told) ->
    Each = [{Id, Duration, Cause} || {Id, _, Duration, Cause} <- All],
    #{pid => Pid, spans => length(Each), each => Each, spans_from => [From || {_, From, _, _} <- All], told => Told,
      duration => lists:sum([Duration || {_, Duration, _} <- Each]),
      cause => lists:sum([Cause || {_, _, Cause} <- Each])};
result(_, Why, _) ->
    error(Why).

defaults() ->
    #{spans => 1, name => <<"slow">>, work => 5, cause => 50, messages => 100, seq_trace => false}.

module(Scenario) ->
    Remote = lists:member(Scenario, cause_waits:remote_scenarios()),
    case [Module || Module <- modules(), lists:member(Scenario, Module:scenarios())] of
        [Module] -> Module;
        [] when Remote -> cause_waits;
        [] -> error({no_scenario, Scenario})
    end.

each(Spans, Start, Prepared) ->
    try [one(Start, Prepared) || _ <- lists:seq(1, Spans)]
    after (maps:get(tidy, Prepared, fun() -> ok end))()
    end.

one(Start, #{span := Inside} = Prepared) ->
    State = (maps:get(before, Prepared, fun() -> none end))(),
    From = erlang:monotonic_time(nanosecond),
    {Ctx, Span} = Start(),
    {To, Cause} = Inside(State, fun() -> beamscope:end_span(Ctx, Span), erlang:monotonic_time(nanosecond) end),
    {span_load:id(Span), From, To - From, Cause}.
