%%% @doc Two workers side by side, the thesis's systems with a slower worker.
%%%
%%% ```
%%%            +--> worker 1 --+
%%% source ----+               +--> first, or all, to finish
%%%            +--> worker 2 --+
%%% '''
%%%
%%% Requests arrive as a Poisson process, and each goes to both workers at once.
%%% With `join => first' it is done when one of them is done with it; the other
%%% one finishes all the same. With `join => all' it is done when both are.
%%%
%%% Three outcomes are spans: `worker_1' and `worker_2', from the request until
%%% that worker is done, and `probe', from the request until it is done.
%%%
%%% The workers are independent of each other, and no request waits for another:
%%% queues behind one source would be long at the same times. So with F1 and F2
%%% the ΔQs of the workers, that of the probe is 1 - (1 - F1)(1 - F2) for the first
%%% to finish and F1 F2 for all.
-module(workers).

-export([start_link/1, start/1, stop/0, set/2, info/0]).

-export_type([options/0]).

-type options() :: #{join => first | all,  % fixed while it runs
                     rate => number(),     % requests a second
                     delay => number(),    % mean time that a worker takes, ms
                     slow_1 => number(),   % what worker 1 takes in addition, ms
                     slow_2 => number(),   % what worker 2 takes in addition, ms
                     seed => integer()}.   % everything random follows from it
%% Milliseconds may have fractions, and are at most 60000.

-define(MAX_MS, 60_000).

%% @doc Starts the system. Everything unset is at its default: the first to
%% finish, 200 requests a second, 4 ms of delay, nobody slower. There is one such
%% system in a VM.
-spec start_link(options()) -> gen_server:start_ret().
start_link(Options) ->
    synthetic_system:start_link(system(), Options).

%% @doc As start_link/1, outliving the caller.
-spec start(options()) -> gen_server:start_ret().
start(Options) ->
    synthetic_system:start(system(), Options).

-spec stop() -> ok.
stop() ->
    synthetic_system:stop(?MODULE).

%% @doc Changes the system while it runs. A request that is being worked on
%% keeps the delay it has.
-spec set(rate | delay | slow_1 | slow_2, number()) -> ok | {error, Why :: term()}.
set(Key, Value) ->
    synthetic_system:set(?MODULE, Key, Value).

%% @doc What is set, and what has happened since the start: requests `sent',
%% `done_1' and `done_2' by the workers, and `done' as far as the join goes.
-spec info() -> #{atom() => term()}.
info() ->
    synthetic_system:info(?MODULE).

system() ->
    #{name => ?MODULE,
      %% The workers watch the clock for half a millisecond a request: together they
      %% take a fifth of a core.
      defaults => #{join => first, rate => 200, delay => 4, slow_1 => 0, slow_2 => 0},
      value => fun value/2,
      counts => [done_1, done_2, done],
      build => fun build/2}.

value(join, Join) when Join =:= first; Join =:= all -> {ok, Join};
value(Key, Ms) when Key =:= delay orelse Key =:= slow_1 orelse Key =:= slow_2,
                    is_number(Ms), Ms >= 0, Ms =< ?MAX_MS -> {ok, Ms};
value(_, _) -> error.

build(#{join := Join, slow_1 := Slow1, slow_2 := Slow2} = Options, Count) ->
    Worker1 = worker(1, Slow1, Options),
    Worker2 = worker(2, Slow2, Options),
    #{send => fun() -> request(Worker1, Worker2, decisive(Join), Count) end,
      change => fun(Key, Value) -> change(Key, Value, Worker1, Worker2) end,
      stop => fun() -> lists:foreach(fun delay_station:stop/1, [Worker1, Worker2]) end}.

worker(N, Slow, #{delay := Delay, seed := Seed}) ->
    delay_station:start_link(#{delay => Delay, slow => Slow, seed => {Seed, N}}).

change(join, _, _, _) -> {error, {fixed, join}};
change(slow_1, Ms, Worker1, _) -> delay_station:set(Worker1, slow, Ms);
change(slow_2, Ms, _, Worker2) -> delay_station:set(Worker2, slow, Ms);
change(delay, Ms, Worker1, Worker2) ->
    delay_station:set(Worker1, delay, Ms),
    delay_station:set(Worker2, delay, Ms).

%% Which of the workers' ends is that of the request.
decisive(first) -> 1;
decisive(all) -> 2.

request(Worker1, Worker2, Decisive, Count) ->
    Since = erlang:monotonic_time(nanosecond),
    %% The probe ends a span's cost later than the worker, so it starts later too.
    Span1 = beamscope:start_span(<<"worker_1">>),
    Span2 = beamscope:start_span(<<"worker_2">>),
    Probe = beamscope:start_span(<<"probe">>),
    Ends = atomics:new(1, []),
    %% Whichever worker is the decisive one ends the probe itself: to tell another
    %% process would be part of the probe's delay and of no worker's.
    Done = fun(Span, Name) ->
                   finish(Span, Name, Count),
                   atomics:add_get(Ends, 1, 1) =:= Decisive andalso finish(Probe, done, Count)
           end,
    delay_station:arrive(Worker1, Since, fun() -> Done(Span1, done_1) end),
    delay_station:arrive(Worker2, Since, fun() -> Done(Span2, done_2) end).

finish({Ctx, Span}, Name, Count) ->
    beamscope:end_span(Ctx, Span),
    Count(Name).
