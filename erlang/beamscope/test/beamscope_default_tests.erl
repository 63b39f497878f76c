%%% On a VM that has probes, with the application's own environment.
-module(beamscope_default_tests).
-include_lib("eunit/include/eunit.hrl").

ring_test() ->
    ?assert(dyntrace:available()),
    {Carrier, false, false} = beamscope_facilities:decide(),
    ?assertEqual(ring, element(1, Carrier)).
