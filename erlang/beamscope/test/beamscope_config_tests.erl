%%% A VM whose configuration requests tokens, and which does not start the application. Runs with
%%% the dyntrace in listening/, and with seq_trace.config.
-module(beamscope_config_tests).
-include_lib("eunit/include/eunit.hrl").

%% Loading the application does not override values that were set by hand.
configured_test() ->
    ?assertNot(lists:keymember(beamscope, 1, application:loaded_applications())),
    {_, {_, _, _, Token}} = beamscope:start_span(a),
    ?assertEqual({label, Token}, seq_trace:get_token(label)),
    ok = beamscope_token:take_off(Token),
    ok = application:unload(beamscope),
    ok = application:set_env(beamscope, seq_trace, false),
    ?assertEqual({probes, false, false}, beamscope_facilities:refresh()).
