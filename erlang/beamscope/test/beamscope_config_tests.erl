%%% A VM whose configuration requests tokens, and which does not start the application. Runs with
%%% the dyntrace in listening/, and with seq_trace.config.
-module(beamscope_config_tests).
-include_lib("eunit/include/eunit.hrl").

-include("../src/beamscope.hrl").

%% Loading the application does not override values that were set by hand.
configured_test() ->
    ?assertNot(lists:keymember(beamscope, 1, application:loaded_applications())),
    {_, {_, _, _, Token}} = beamscope:start_span(a),
    ?assertEqual({label, Token}, seq_trace:get_token(label)),
    ok = beamscope_token:take_off(Token),
    ok = application:unload(beamscope),
    ok = application:set_env(beamscope, seq_trace, false),
    ?assertEqual({probes, false, false}, beamscope_facilities:refresh()).

%% Spans that start or end while the facilities are decided again use the earlier decision.
decided_throughout_test() ->
    _ = beamscope_facilities:decide(),
    Test = self(),
    Watch = spawn_link(fun() -> Test ! {self(), watch(0)} end),
    [beamscope_facilities:refresh() || _ <- lists:seq(1, 100)],
    Watch ! stop,
    receive {Watch, Undecided} -> ?assertEqual(0, Undecided) end.

watch(Undecided) ->
    receive stop -> Undecided
    after 0 ->
        case ?FACILITIES of
            undecided -> watch(Undecided + 1);
            _Decided -> watch(Undecided)
        end
    end.
