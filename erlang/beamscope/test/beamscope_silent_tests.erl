%%% A VM without probes: all functions work without effect, and the log says so once. Runs with the
%%% dyntrace in silent/, and without dyntrace.
-module(beamscope_silent_tests).
-include_lib("eunit/include/eunit.hrl").
-export([log/2]).

log(#{level := Level, msg := {Format, Args}}, #{config := Owner}) when is_list(Format) ->
    Owner ! {log, Level, lists:flatten(io_lib:format(Format, Args))};
log(_, _) ->
    ok.

silent_test() ->
    ok = logger:add_handler(?MODULE, ?MODULE, #{config => self()}),
    Procs = [spawn_monitor(fun use/0) || _ <- lists:seq(1, 50)],
    [receive {'DOWN', Monitor, process, _, Why} -> ?assertEqual(normal, Why) end || {_, Monitor} <- Procs],
    use(),
    ok = logger:remove_handler(?MODULE),
    [{notice, "beamscope: " ++ Complaint}] = logged(),
    ?assert(lists:prefix("this VM has no probes", Complaint) orelse lists:prefix("the module dyntrace", Complaint)),
    ?assertEqual({none, false, false}, beamscope_facilities:decide()),
    ?assertEqual({none, false, false}, beamscope_facilities:refresh()).

use() ->
    {undefined, ignore} = beamscope:start_span(<<"a">>),
    {undefined, ignore} = beamscope:start_span(<<"a">>, #{attributes => #{}}),
    ok = beamscope:end_span(undefined, ignore),
    ok = beamscope:fail_span(ignore, why),
    7 = beamscope:with_span(<<"a">>, fun() -> 7 end),
    thrown = try beamscope:with_span(<<"a">>, fun() -> throw(thrown) end) catch throw:T -> T end.

logged() ->
    receive {log, Level, Format} -> [{Level, Format} | logged()] after 0 -> [] end.
