%%% @doc Large numbers of spans, for tests and measurements.
%%%
%%% All functions take the same options and return when every process is done. `procs' is the
%%% number of processes (4), `spans' the total number of spans (250000), `name' the name of the
%%% outcome (`<<"load">>'), and `loops' the artificial work inside each span (0). `attrs'
%%% contains the attributes of the spans that run/1 and calling/1 start (#{}).
-module(span_load).

-export([idle/1, run/1, within/1, children/1, probes/1, paced/2, calling/1, measured/1, open/1, failing/1, raising/1,
         dying/1, id/1]).

-export_type([options/0, result/0]).

-type options() :: #{procs => pos_integer(), spans => non_neg_integer(),
                     name => beamscope:name(), loops => non_neg_integer(),
                     attrs => beamscope:attrs()}.
-type result() :: #{spans := non_neg_integer(),  % the number of started spans
                    elapsed_ns := integer(),
                    ns_per_span := float()}. % of the time of one core

%% @doc Does the same as run/1 but without spans, to measure the cost of the load itself.
-spec idle(options()) -> result().
idle(Options) ->
    summary(Options, fun(_Name, Work) -> Work() end).

%% @doc Starts and ends spans, as fast as possible.
-spec run(options()) -> result().
run(Options) ->
    #{attrs := Attrs} = options(Options),
    summary(Options, fun(Name, Work) ->
                             {Ctx, Span} = beamscope:start_span(Name, Attrs),
                             Work(),
                             beamscope:end_span(Ctx, Span)
                     end).

%% @doc Runs an empty function within each span.
-spec within(options()) -> result().
within(Options) ->
    summary(Options, fun(Name, Work) -> beamscope:with_span(Name, Work) end).

%% @doc Like run/1, but all spans are children of one that starts first.
-spec children(options()) -> result().
children(Options) ->
    {Ctx, Parent} = beamscope:start_span(<<"parent">>),
    Result = run(Options#{attrs => #{parent => Parent}}),
    ok = beamscope:end_span(Ctx, Parent),
    Result.

%% @doc Calls dyntrace:pn/7 twice for each span, and does nothing else: the least that a span costs
%% that fires a probe of the VM.
-spec probes(options()) -> result().
probes(Options) ->
    summary(Options, fun(Name, Work) ->
                             _ = dyntrace:pn(1, 1, 1, 1, 0, Name, <<>>),
                             Work(),
                             dyntrace:pn(1, 1, 2, 1, 0, Name, <<>>)
                     end).

%% @doc Calls run/1 once in each millisecond, the given number of times. If a call takes longer
%% than a millisecond, the next ones follow without a pause.
-spec paced(options(), non_neg_integer()) -> ok.
paced(Options, Millis) ->
    Start = erlang:monotonic_time(),
    Step = erlang:convert_time_unit(1, millisecond, native),
    lists:foreach(fun(N) -> wait_until(Start + N * Step), run(Options) end, lists:seq(0, Millis - 1)).

%% Watches the clock, because timers are too coarse for this.
wait_until(At) ->
    case erlang:monotonic_time() < At of
        true -> wait_until(At);
        false -> ok
    end.

%% @doc Like run/1, but inside each span the process sends a message to another process and
%% gets one back.
-spec calling(options()) -> result().
calling(Options) ->
    #{attrs := Attrs} = options(Options),
    Echo = spawn_link(fun echo/0),
    Result = summary(Options, fun(Name, Work) ->
                                      {Ctx, Span} = beamscope:start_span(Name, Attrs),
                                      Work(),
                                      Echo ! {ask, self()},
                                      receive answer -> ok end,
                                      beamscope:end_span(Ctx, Span)
                              end),
    unlink(Echo),
    exit(Echo, kill),
    Result.

echo() ->
    receive {ask, From} -> From ! answer end,
    echo().

%% @doc Like run/1, but returns each span's Id with the delay that the VM itself measured, from
%% before the start to after the end. Id is 0 if the span was not traced.
-spec measured(options()) -> [{Id :: non_neg_integer(), Ns :: non_neg_integer()}].
measured(Options) ->
    {_, Delays} = execute(Options, fun measure/2),
    Delays.

measure(Name, Work) ->
    Start = erlang:monotonic_time(nanosecond),
    {Ctx, Span} = beamscope:start_span(Name),
    Work(),
    beamscope:end_span(Ctx, Span),
    [{id(Span), erlang:monotonic_time(nanosecond) - Start}].

%% @doc Starts spans that never end.
-spec open(options()) -> result().
open(Options) ->
    summary(Options, fun(Name, Work) ->
                             _ = beamscope:start_span(Name),
                             Work()
                     end).

%% @doc Fails every span, with class `load'.
-spec failing(options()) -> result().
failing(Options) ->
    summary(Options, fun(Name, Work) ->
                             {Ctx, Span} = beamscope:start_span(Name),
                             Work(),
                             beamscope:fail_span(Span, load),
                             beamscope:end_span(Ctx, ignore)
                     end).

%% @doc Raises `error:load' inside with_span, every time.
-spec raising(options()) -> result().
raising(Options) ->
    summary(Options, fun(Name, Work) ->
                             try beamscope:with_span(Name, fun() -> Work(), error(load) end)
                             catch error:load -> ok
                             end
                     end).

%% @doc The process of each span dies, with reason `kill', before the span ends.
-spec dying(options()) -> result().
dying(Options) ->
    summary(Options, fun(Name, Work) ->
                             {_, Monitor} = spawn_monitor(fun() ->
                                                                  _ = beamscope:start_span(Name),
                                                                  Work(),
                                                                  exit(self(), kill)
                                                          end),
                             receive {'DOWN', Monitor, process, _, _} -> ok end
                     end).

summary(Options, One) ->
    #{procs := Procs, spans := Spans} = options(Options),
    {Elapsed, []} = execute(Options, fun(Name, Work) -> _ = One(Name, Work), [] end),
    Parallel = min(Procs, erlang:system_info(schedulers_online)),
    #{spans => Spans, elapsed_ns => Elapsed, ns_per_span => Elapsed * Parallel / max(1, Spans)}.

execute(Options, One) ->
    #{procs := Procs, spans := Spans, name := Name, loops := Loops} = options(Options),
    Work = fun() -> synthetic_work:work(Loops) end,
    Start = erlang:monotonic_time(nanosecond),
    Monitors = [element(2, spawn_monitor(fun() -> exit({done, repeat(share(I, Procs, Spans), Name, Work, One, [])}) end))
                || I <- lists:seq(1, Procs)],
    Results = [receive {'DOWN', Monitor, process, _, {done, Result}} -> Result end || Monitor <- Monitors],
    {erlang:monotonic_time(nanosecond) - Start, lists:append(Results)}.

repeat(0, _Name, _Work, _One, Results) -> Results;
repeat(N, Name, Work, One, Results) ->
    repeat(N - 1, Name, Work, One, One(Name, Work) ++ Results).

%% If the spans do not divide evenly, the first processes get one more.
share(I, Procs, Spans) when I =< Spans rem Procs -> Spans div Procs + 1;
share(_, Procs, Spans) -> Spans div Procs.

options(Options) ->
    maps:merge(#{procs => 4, spans => 250_000, name => <<"load">>, loops => 0, attrs => #{}}, Options).

%% Dialyzer takes every handle for ignore; see the note on dyntrace:pn in beamscope.
-dialyzer({no_match, id/1}).

%% @doc Returns the Id of a span, or 0 if it is not traced.
-spec id(beamscope:handle()) -> non_neg_integer().
id(ignore) -> 0;
id({skip, _Class}) -> 0;
id({ring, _Birth, Id, _Name}) -> Id;
id({explained, Fired, _Recorded}) -> id(Fired);
id({call, Id, _Label, _Name}) -> Id;
id(Span) -> element(1, Span).
