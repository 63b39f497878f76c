%%% @doc OpenTelemetry's side of a span, for opentelemetry_api 1.x.
%%%
%%% These are the functions its macros expand to. Nothing of it is needed to
%%% compile or run beamscope: {@link available/0} says whether it is there, and
%%% the others are called only then.
-module(beamscope_otel).

-export([available/0, start/2, stop/1, with/3]).

-ignore_xref([opentelemetry, otel_span, otel_tracer]).

%% The modules may be absent where dialyzer runs.
-dialyzer({nowarn_function, [start/2, stop/1, with/3, tracer/0]}).

%% @doc Is the OpenTelemetry API in the code path?
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

%% @doc As `?end_span', of the given span instead of the current one.
-spec stop(beamscope:span_ctx()) -> ok.
stop(Ctx) ->
    _ = otel_span:end_span(Ctx),
    ok.

%% @doc As `?with_span': current while `Fun' runs, and ended however it leaves.
-spec with(beamscope:name(), beamscope:attrs(), fun(() -> Result)) -> Result.
with(Name, Attrs, Fun) ->
    otel_tracer:with_span(tracer(), Name, options(Attrs), fun(_Ctx) -> Fun() end).

%% Asked each time: the SDK may register its tracer after the first span.
tracer() ->
    opentelemetry:get_application_tracer(?MODULE).

options(Attrs) ->
    maps:without([parent, seq_trace], Attrs).
