%%% The first span of a VM: loading code takes milliseconds, and none of it may be between
%%% the start and the end of a span. Runs without EUnit, which loads much of that code itself.
-module(first_span).
-export([main/1]).

%% Halts with status 1 if the span loads a module, and prints which.
main([How]) ->
    put(hits, []),
    span(How),
    [{_, AtStart} | Later] = lists:reverse(get(hits)),
    {_, AtEnd} = lists:last(Later),
    case AtEnd -- AtStart of
        [] -> halt(0);
        Loaded -> erlang:display({loaded_in_span, Loaded}), halt(1)
    end.

span("token") ->
    beamscope:with_span(<<"a">>, fun() -> ok end, #{seq_trace => true});
span("start") ->
    {Ctx, Span} = beamscope:start_span(<<"a">>, #{seq_trace => true}),
    ok = beamscope:end_span(Ctx, Span);
span("class") ->
    {_, Span} = beamscope:start_span(<<"a">>),
    ok = beamscope:fail_span(Span, {bad, [term], #{a => 1.5}, <<"text">>, "text", self()});
span("exception") ->
    try beamscope:with_span(<<"a">>, fun() -> error({bad, [term]}) end) catch error:{bad, _} -> ok end.
