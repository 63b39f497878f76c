%%% @doc Artificial work and its random numbers.
-module(synthetic_work).

-export([work/1, loops/1, busy/1, timed/1, wait/1, seed/1, exponential/1]).

%% @doc Runs a given number of empty loops. The scheduler may interrupt it.
-spec work(non_neg_integer()) -> ok.
work(0) -> ok;
work(N) -> work(N - 1).

%% @doc Returns how many loops take the given time on this machine: the median of trials over
%% about a tenth of a second, because the speed of a core changes with the load on the other
%% cores. A trial is shorter than the time slices of the operating system, so few trials are
%% interrupted on a busy machine.
-spec loops(Nanoseconds :: pos_integer()) -> pos_integer().
loops(Nanoseconds) ->
    Trial = 100_000,
    Times = lists:sort([max(1, timed(fun() -> work(Trial) end)) || _ <- lists:seq(1, 501)]),
    max(1, round(Trial * Nanoseconds / lists:nth(251, Times))).

%% @doc Works for the given time by the clock.
-spec busy(Nanoseconds :: integer()) -> ok.
busy(Nanoseconds) ->
    busy_until(erlang:monotonic_time(nanosecond) + Nanoseconds).

busy_until(Deadline) ->
    work(1000),
    case erlang:monotonic_time(nanosecond) >= Deadline of
        true -> ok;
        false -> busy_until(Deadline)
    end.

%% @doc Returns how long a function takes.
-spec timed(fun(() -> term())) -> Nanoseconds :: integer().
timed(Fun) ->
    Start = erlang:monotonic_time(nanosecond),
    _ = Fun(),
    erlang:monotonic_time(nanosecond) - Start.

%% @doc Sleeps until a monotonic time in nanoseconds. The VM's timers have a resolution of 1
%% ms. Rounding up would lose fractions of milliseconds, and would give the same remainder to
%% all processes that began to wait together. So this function sleeps until the last tick
%% before the deadline, and watches the clock for the rest, on average half a millisecond. The
%% seq_trace token remains, as it would after `receive ... after'.
-spec wait(Deadline :: integer()) -> ok.
wait(Deadline) ->
    Tick = erlang:convert_time_unit(Deadline, nanosecond, millisecond), % rounds down
    case erlang:monotonic_time(millisecond) < Tick of
        true ->
            Timer = erlang:start_timer(Tick, self(), tick, [{abs, true}]),
            Token = seq_trace:get_token(label),
            receive {timeout, Timer, tick} -> put_back(Token) end,
            watch_clock(Deadline);
        false ->
            watch_clock(Deadline)
    end.

%% See the note on seq_trace:get_token in beamscope_token.
-dialyzer({no_match, put_back/1}).
put_back([]) -> ok;
put_back({label, Label}) -> _ = seq_trace:set_token(label, Label), ok.

watch_clock(Deadline) ->
    case erlang:monotonic_time(nanosecond) >= Deadline of
        true -> ok;
        false -> erlang:yield(), watch_clock(Deadline)
    end.

%% @doc Returns a stream of random numbers. Equal terms give equal streams.
-spec seed(term()) -> rand:state().
seed(Term) ->
    rand:seed_s(exsss, {erlang:phash2({1, Term}), erlang:phash2({2, Term}), erlang:phash2({3, Term})}).

%% @doc Returns the next number of an exponential distribution with mean 1.
-spec exponential(rand:state()) -> {float(), rand:state()}.
exponential(Random0) ->
    {U, Random} = rand:uniform_real_s(Random0), % never returns 0.0
    {-math:log(U), Random}.
