%%% @doc A worker that handles all its requests at the same time, so no request waits. Queueing
%%% theory calls this a delay station, or M/M/∞.
%%%
%%% A request takes an exponentially distributed time. The worker sleeps for that time and does
%%% not compute, because requests that compete for a core would not be independent of each
%%% other.
-module(delay_station).

-export([start_link/1, arrive/3, set/3, stop/1]).

-export_type([station/0, config/0]).

-type config() :: #{delay := number(),  % mean time of a request, ms
                    slow := number(),   % additional time of each request, ms
                    seed := term()}.
-opaque station() :: pid().

-define(MS, 1_000_000). % in ns

-spec start_link(config()) -> station().
start_link(#{seed := Seed} = Config) ->
    spawn_link(fun() -> loop(synthetic_work:seed(Seed), Config) end).

%% @doc Reports a request that arrived at the given monotonic time in nanoseconds. When the
%% request is done, Done is called in its own process.
-spec arrive(station(), Since :: integer(), Done :: fun(() -> term())) -> ok.
arrive(Station, Since, Done) ->
    Station ! {arrive, Since, Done},
    ok.

%% @doc Changes the times of later requests.
-spec set(station(), delay | slow, number()) -> ok.
set(Station, Key, Value) ->
    Station ! {set, Key, Value},
    ok.

%% @doc Stops the station. Its unfinished requests are never done.
-spec stop(station()) -> ok.
stop(Station) ->
    unlink(Station),
    exit(Station, shutdown),
    ok.

loop(Random0, #{delay := Delay, slow := Slow} = Config) ->
    receive
        {arrive, Since, Done} ->
            {X, Random} = synthetic_work:exponential(Random0),
            Deadline = Since + round((Delay * X + Slow) * ?MS),
            spawn_link(fun serve/0) ! {serve, Deadline, Done},
            loop(Random, Config);
        {set, Key, Value} ->
            loop(Random0, Config#{Key := Value})
    end.

%% Serves one request. It comes in a message and not in the fun of the process, because beamscope
%% follows a span over messages when it explains it.
serve() ->
    receive
        {serve, Deadline, Done} ->
            synthetic_work:wait(Deadline),
            Done()
    end.
