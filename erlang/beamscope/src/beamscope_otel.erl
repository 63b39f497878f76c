%%% @doc The OpenTelemetry part of a span, for opentelemetry_api 1.x.
%%%
%%% These are the functions that its macros expand to. beamscope compiles and runs without
%%% OpenTelemetry: {@link available/0} reports whether it is present, and only then are the other
%%% functions called.
-module(beamscope_otel).

-export([available/0, start/2, stop/1, with/3]).

-ignore_xref([opentelemetry, otel_span, otel_tracer]).

%% The modules may be absent where dialyzer runs.
-dialyzer({nowarn_function, [start/2, stop/1, with/3, tracer/0]}).

%% @doc Returns whether the OpenTelemetry API is in the code path.
-spec available() -> boolean().
available() ->
    lists:all(fun({Module, Function, Arity}) ->
                      code:ensure_loaded(Module) =:= {module, Module} andalso
                          erlang:function_exported(Module, Function, Arity)
              end,
              [{opentelemetry, get_application_tracer, 1},
               {otel_tracer, start_span, 3},
               {otel_tracer, with_span, 4},
               {otel_span, end_span, 1}]).

%% @doc As `?start_span': the new span does not become the current one.
-spec start(beamscope:name(), beamscope:attrs()) -> beamscope:span_ctx().
start(Name, Attrs) ->
    otel_tracer:start_span(tracer(), Name, options(Attrs)).

%% @doc Like `?end_span', for the given span instead of the current one.
-spec stop(beamscope:span_ctx()) -> ok.
stop(Ctx) ->
    _ = otel_span:end_span(Ctx),
    ok.

%% @doc Like `?with_span': the span is current while `Fun' runs, and ends when `Fun' returns or
%% raises.
-spec with(beamscope:name(), beamscope:attrs(), fun(() -> Result)) -> Result.
with(Name, Attrs, Fun) ->
    otel_tracer:with_span(tracer(), Name, options(Attrs), fun(_Ctx) -> Fun() end).

%% Looked up each time, because the SDK may register its tracer after the first span.
tracer() ->
    opentelemetry:get_application_tracer(?MODULE).

options(Attrs) ->
    maps:without([parent, seq_trace], Attrs).
