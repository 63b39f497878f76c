%%% @doc Spans that are slow for a known cause, to see whether it is found.
%%%
%%% A scenario makes spans, one after the other, in a process of its own. Each works
%%% a little, and is slowed by the cause for a multiple of that. What the cause took is
%%% measured by the clocks of the processes concerned, without any probe: so much of the
%%% span is what there is to be found.
%%%
%%% The scenarios are those of {@link cause_alone}, in which nobody but the process
%%% itself takes part, of {@link cause_others} and of {@link cause_vm}, and of
%%% {@link cause_waits} and {@link cause_met}, which tell besides what each process did. The process that starts the spans
%%% is registered as `slow_span'. There is one scenario at a time in a VM.
-module(causes).

-export([run/2, run_all/2, scenarios/0]).

-export_type([scenario/0, options/0, config/0, prepared/0, finish/0, result/0]).

-type scenario() :: cause_alone:scenario() | cause_others:scenario() | cause_vm:scenario() | cause_waits:scenario() | cause_met:scenario().

-type options() :: #{spans => pos_integer(),     % how many (1)
                     name => beamscope:name(),   % of the outcome (<<"slow">>)
                     work => pos_integer(),      % work in each span, ms (5)
                     cause => pos_integer(),     % what the cause takes about, ms (50)
                     messages => pos_integer(),  % in mailboxes and queues that are full (100)
                     seq_trace => boolean()}.    % as with beamscope (false)

-type config() :: #{work := Ns :: pos_integer(), cause := Ns :: pos_integer(), messages := pos_integer()}.

-type prepared() :: #{before => fun(() -> State),     % called before each span
                      span := fun((State, finish()) -> {EndNs :: integer(), CauseNs :: integer()}),
                      tidy => fun(() -> term())}.    % called in the end
%% How spans are made slow, by functions for the process that starts them. What `before'
%% returns is `span''s first argument.

-type finish() :: fun(() -> EndNs :: integer()).
%% Ends the span, in the process that calls it, and returns when.

-type result() :: #{pid := pid(),                % that made the spans
                    spans := pos_integer(),
                    duration := Ns :: integer(), % of all, and of that the cause
                    cause := Ns :: integer(),
                    each := [{Id :: non_neg_integer(), DurationNs :: integer(), CauseNs :: integer()}],
                    spans_from := [integer()],   % when each began
                    told := [truth:phase()]}.    % what processes did, of those that tell
%% Id is 0 where nobody watched. Times are erlang:monotonic_time(nanosecond).

-define(MS, 1_000_000). % in ns

-spec scenarios() -> [scenario()].
scenarios() ->
    lists:append([Module:scenarios() || Module <- modules()]).

modules() -> [cause_alone, cause_others, cause_vm, cause_waits, cause_met].

%% @doc Carries out scenarios, one after the other.
-spec run_all([scenario()], options()) -> [result()].
run_all(Scenarios, Options) ->
    [run(Scenario, Options) || Scenario <- Scenarios].

%% @doc Carries out a scenario, and returns when all is over.
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
