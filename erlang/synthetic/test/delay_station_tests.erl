-module(delay_station_tests).
-include_lib("eunit/include/eunit.hrl").

-define(MS, 1_000_000).
-define(HOUR, 3_600_000).

%% Starts a station whose requests take exactly the given time.
with_station(Ms, Test) ->
    Station = delay_station:start_link(#{delay => 0, slow => Ms, seed => 1}),
    Result = Test(Station),
    delay_station:stop(Station),
    Result.

%% A request that arrived at the given time. When it is done, its number and the time arrive as
%% a message.
arrive(Station, Since, Number) ->
    Self = self(),
    delay_station:arrive(Station, Since, fun() -> Self ! {done, Number, now_ns()} end).

done(Number) -> receive {done, Number, At} -> At end.

now_ns() -> erlang:monotonic_time(nanosecond).

%% No request is done even a nanosecond too early, in spite of the resolution of the timers.
takes_its_time_test() ->
    [with_station(Ms, fun(Station) ->
                              Since = now_ns(),
                              arrive(Station, Since, 1),
                              ?assert(done(1) - Since >= Ms * ?MS)
                      end) || Ms <- [0, 0.3, 1, 2.7, 10]].

%% A request that takes an hour does not delay others.
nobody_waits_test() ->
    with_station(?HOUR, fun(Station) ->
                                arrive(Station, now_ns(), slow),
                                ok = delay_station:set(Station, slow, 0),
                                arrive(Station, now_ns(), quick),
                                done(quick),
                                receive {done, slow, _} -> error(too_early) after 0 -> ok end
                        end).

%% Unfinished requests end with the station.
stop_test() ->
    Self = self(),
    Station = delay_station:start_link(#{delay => 0, slow => 0, seed => 1}),
    delay_station:arrive(Station, now_ns(), fun() -> Self ! {working, self()}, receive never -> ok end end),
    Monitor = receive {working, Pid} -> monitor(process, Pid) end,
    delay_station:stop(Station),
    receive {'DOWN', Monitor, process, _, Reason} -> ?assertEqual(shutdown, Reason) end.
