%%% A VM with probes, without a collector.
-module(beamscope_vm_tests).
-include_lib("eunit/include/eunit.hrl").

the_vm_has_probes_test() ->
    ?assert(dyntrace:available()),
    ?assertEqual({probes, false, false}, beamscope_facilities:decide()).

nobody_watches_test() ->
    ?assertEqual({undefined, ignore}, beamscope:start_span(<<"a">>)),
    ?assertEqual(7, beamscope:with_span(<<"a">>, fun() -> 7 end)),
    ?assertEqual(undefined, get('$beamscope_span')).

%% The first and last label are valid arguments of the probes.
labels_test() ->
    [?assertEqual(false, dyntrace:pn(Label, 1, 1, 1, 0, <<"a">>, <<>>)) || Label <- [1, 950]].

application_test() ->
    {ok, _} = application:ensure_all_started(beamscope),
    {ok, _} = dqsd_otel:start(),
    ok = application:stop(dqsd_otel),
    ok = application:stop(beamscope).
