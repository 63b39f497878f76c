%%% @doc The functions of the published wrapper `dqsd_otel', for programs that already call them.
%%% Use this application instead of that wrapper, not together with it.
%%%
%%% Differences: the second element that start_span returns is opaque, but no longer a pid. Spans
%%% are observed without enabling anything or setting a timeout. An exception inside with_span is a
%%% failure at once, and not a timeout later.
-module(dqsd_otel).

-export([start/0,
         start_span/1, start_span/2,
         end_span/2,
         fail_span/1,
         with_span/2, with_span/3]).

%% @doc Nothing needs to be started; kept because programs call it.
-spec start() -> {ok, [atom()]} | {error, term()}.
start() ->
    application:ensure_all_started(?MODULE).

-spec start_span(binary()) -> {beamscope:span_ctx(), beamscope:handle()}.
start_span(Name) ->
    beamscope:start_span(Name).

-spec start_span(binary(), beamscope:attrs()) -> {beamscope:span_ctx(), beamscope:handle()}.
start_span(Name, Attrs) ->
    beamscope:start_span(Name, Attrs).

-spec end_span(beamscope:span_ctx(), beamscope:handle()) -> ok.
end_span(Ctx, Handle) ->
    beamscope:end_span(Ctx, Handle).

-spec fail_span(beamscope:handle()) -> ok.
fail_span(Handle) ->
    beamscope:fail_span(Handle).

-spec with_span(binary(), fun(() -> Result)) -> Result.
with_span(Name, Fun) ->
    beamscope:with_span(Name, Fun).

-spec with_span(binary(), fun(() -> Result), beamscope:attrs()) -> Result.
with_span(Name, Fun, Attrs) ->
    beamscope:with_span(Name, Fun, Attrs).
