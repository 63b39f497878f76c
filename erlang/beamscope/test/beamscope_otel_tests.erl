%%% With OpenTelemetry, its spans start and end too. Runs with the modules in
%%% otel/, and with the dyntrace in listening/ or in silent/.
-module(beamscope_otel_tests).
-include_lib("eunit/include/eunit.hrl").

otel() ->
    receive
        {otel_start, _, _} = M -> M;
        {otel_end, _} = M -> M
    after 0 -> none
    end.

start_end_test() ->
    Attrs = #{attributes => #{a => 1}, kind => server},
    {{otel_ctx, <<"a">>} = Ctx, Span} = beamscope:start_span(<<"a">>, Attrs#{parent => ignore, seq_trace => true}),
    ?assertEqual({otel_start, <<"a">>, Attrs}, otel()),
    ok = beamscope:end_span(Ctx, Span),
    ?assertEqual({otel_end, Ctx}, otel()),
    ?assertEqual(none, otel()).

fail_leaves_it_open_test() ->
    {Ctx, Span} = beamscope:start_span(<<"a">>),
    {otel_start, <<"a">>, #{}} = otel(),
    ok = beamscope:fail_span(Span, why),
    ?assertEqual(none, otel()),
    ok = beamscope:end_span(Ctx, ignore),
    ?assertEqual({otel_end, Ctx}, otel()).

with_span_test() ->
    7 = beamscope:with_span(<<"a">>, fun() -> {otel_start, <<"a">>, #{}} = otel(), 7 end),
    ?assertEqual({otel_end, {otel_ctx, <<"a">>}}, otel()),
    ?assertError(oops, beamscope:with_span(<<"a">>, fun() -> error(oops) end)),
    ?assertMatch({otel_start, <<"a">>, _}, otel()),
    ?assertEqual({otel_end, {otel_ctx, <<"a">>}}, otel()).
