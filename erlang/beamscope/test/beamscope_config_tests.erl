%%% A VM whose configuration asks for tokens, and which starts no application of its
%%% own. Runs with the dyntrace in listening/, and seq_trace.config.
-module(beamscope_config_tests).
-include_lib("eunit/include/eunit.hrl").

%% What is set by hand is not overridden by the application's own environment, which
%% comes with loading it.
configured_test() ->
    ?assertNot(lists:keymember(beamscope, 1, application:loaded_applications())),
    {_, {_, _, _, Token}} = beamscope:start_span(a),
    ?assertEqual({label, Token}, seq_trace:get_token(label)),
    ok = beamscope_token:take_off(Token),
    ok = application:unload(beamscope),
    ok = application:set_env(beamscope, seq_trace, false),
    ?assertEqual({probes, false, false}, beamscope_facilities:refresh()).
