%%% @doc A Poisson source.
%%%
%%% Arrivals have absolute deadlines, one exponential step after the other, so the rate is
%%% right even if the timer is not. The VM's timers have a resolution of 1 ms. Arrivals that
%%% are due within the same millisecond come together, and up to 1 ms late. None is lost, and
%%% the delays do not add up.
-module(synthetic_source).

-export([start_link/3, set/2, stop/1]).
-export([new/3, set_rate/3, due/2, wait/2]).

-export_type([schedule/0]).

-define(SECOND, 1_000_000_000).

-record(schedule, {rate :: number(),
                   random :: rand:state(),
                   next :: float() | never}).  % deadline of the next arrival, ns

-opaque schedule() :: #schedule{}.

%% @doc Calls `Emit' at each arrival, in a separate process.
-spec start_link(Rate :: number(), Seed :: term(), Emit :: fun(() -> term())) -> pid().
start_link(Rate, Seed, Emit) ->
    spawn_link(fun() -> loop(new(Rate, Seed, now_ns()), Emit) end).

%% @doc Changes the rate from now on. With rate 0, nothing is emitted after this function has
%% returned.
-spec set(pid(), Rate :: number()) -> ok.
set(Source, Rate) ->
    Source ! {rate, Rate, self()},
    receive {rate_set, Source} -> ok end.

-spec stop(pid()) -> ok.
stop(Source) ->
    unlink(Source),
    exit(Source, shutdown),
    ok.

loop(Schedule0, Emit) ->
    {Count, Schedule} = due(Schedule0, now_ns()),
    repeat(Count, Emit),
    receive
        {rate, Rate, From} ->
            From ! {rate_set, self()},
            loop(set_rate(Schedule, Rate, now_ns()), Emit)
    after wait(Schedule, now_ns()) ->
        loop(Schedule, Emit)
    end.

repeat(0, _Emit) -> ok;
repeat(N, Emit) -> Emit(), repeat(N - 1, Emit).

now_ns() -> erlang:monotonic_time(nanosecond).

%% @doc Returns a schedule that begins now. This function and the following ones are pure.
-spec new(Rate :: number(), Seed :: term(), Now :: integer()) -> schedule().
new(Rate, Seed, Now) ->
    step(Now, #schedule{rate = Rate, random = synthetic_work:seed(Seed), next = never}).

%% @doc Changes the rate from now on. The exponential distribution has no memory, so a new step
%% from now is equivalent to the rest of the old one.
-spec set_rate(schedule(), Rate :: number(), Now :: integer()) -> schedule().
set_rate(Schedule, Rate, Now) ->
    step(Now, Schedule#schedule{rate = Rate}).

%% @doc Returns how many arrivals are due. If the schedule is more than a second behind, the
%% machine slept or was stopped. Then the schedule continues from now, so that it does not
%% flood the system.
-spec due(schedule(), Now :: integer()) -> {non_neg_integer(), schedule()}.
due(#schedule{next = Next} = Schedule, Now) when is_number(Next), Now - Next > ?SECOND ->
    {0, step(Now, Schedule)};
due(Schedule, Now) ->
    due(Schedule, Now, 0).

due(#schedule{next = Next} = Schedule, Now, Count) when is_number(Next), Next =< Now ->
    due(step(Next, Schedule), Now, Count + 1);
due(Schedule, _Now, Count) ->
    {Count, Schedule}.

%% @doc Returns the whole milliseconds until the next arrival, for `receive ... after'.
-spec wait(schedule(), Now :: integer()) -> timeout().
wait(#schedule{next = never}, _Now) -> infinity;
wait(#schedule{next = Next}, Now) -> max(0, ceil((Next - Now) / 1_000_000)).

step(_From, #schedule{rate = Rate} = Schedule) when Rate == 0 ->
    Schedule#schedule{next = never};
step(From, #schedule{rate = Rate, random = Random0} = Schedule) ->
    {X, Random} = synthetic_work:exponential(Random0),
    Schedule#schedule{next = From + X * ?SECOND / Rate, random = Random}.
