-module(otel_span).
-export([end_span/1]).

end_span(Ctx) ->
    self() ! {otel_end, Ctx},
    Ctx.
