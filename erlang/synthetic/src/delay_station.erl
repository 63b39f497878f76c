%%% @doc A worker for whom no request waits: it works on all it has at the same
%%% time. Queueing theory calls that a delay station, or M/M/∞.
%%%
%%% A request takes an exponentially distributed time. That is spent asleep, not
%%% with work: requests that compete for a core are not independent of each other.
-module(delay_station).

-export([start_link/1, arrive/3, set/3, stop/1]).

-export_type([station/0, config/0]).

-type config() :: #{delay := number(),  % mean time a request takes, ms
                    slow := number(),   % that each takes longer, ms
                    seed := term()}.
-opaque station() :: pid().

-define(MS, 1_000_000). % in ns

-spec start_link(config()) -> station().
start_link(#{seed := Seed} = Config) ->
    spawn_link(fun() -> loop(synthetic_work:seed(Seed), Config) end).

%% @doc A request has arrived, at a monotonic time in nanoseconds. When it has
%% taken its time, Done is called, in a process of its own.
-spec arrive(station(), Since :: integer(), Done :: fun(() -> term())) -> ok.
arrive(Station, Since, Done) ->
    Station ! {arrive, Since, Done},
    ok.

%% @doc Changes what later requests take.
-spec set(station(), delay | slow, number()) -> ok.
set(Station, Key, Value) ->
    Station ! {set, Key, Value},
    ok.

%% @doc Stops the station. Requests that it works on are never done.
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
            spawn_link(fun() -> synthetic_work:wait(Deadline), Done() end),
            loop(Random, Config);
        {set, Key, Value} ->
            loop(Random0, Config#{Key := Value})
    end.
