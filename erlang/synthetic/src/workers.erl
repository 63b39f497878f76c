%%% @doc Two parallel workers: the thesis's systems with a slower worker.
%%%
%%% ```
%%%            +--> worker 1 --+
%%% source ----+               +--> first, or all, to finish
%%%            +--> worker 2 --+
%%% '''
%%%
%%% Requests arrive as a Poisson process. Each goes to both workers at once. With
%%% `join => first', a request is done when one of the workers is done with it, but the other
%%% one finishes as well. With `join => all', it is done when both are.
%%%
%%% Three outcomes are spans: `worker_1' and `worker_2', from the request until that worker is
%%% done, and `probe', from the request until the request is done.
%%%
%%% The workers are independent of each other, and no request waits for another one. With
%%% queues this would not hold: two queues behind the same source would be long at the same
%%% times. So if F1 and F2 are the ΔQs of the workers, the ΔQ of the probe is 1 - (1 - F1)(1 -
%%% F2) for the first to finish and F1 F2 for all.
-module(workers).

-export([start_link/1, start/1, stop/0, set/2, info/0]).

-export_type([options/0]).

-type options() :: #{join => first | all,  % fixed while it runs
                     rate => number(),     % requests per second
                     delay => number(),    % mean time of a worker, ms
                     slow_1 => number(),   % additional time of worker 1, ms
                     slow_2 => number(),   % additional time of worker 2, ms
                     seed => integer()}.   % determines all random numbers
%% Milliseconds may have fractions, and are at most 60000.

-define(MAX_MS, 60_000).

%% @doc Starts the system. The defaults are the first to finish, 200 requests per second, 4 ms
%% of delay and no slower worker. Only one such system can run in a VM.
-spec start_link(options()) -> gen_server:start_ret().
start_link(Options) ->
    synthetic_system:start_link(system(), Options).

%% @doc Like start_link/1, but the system outlives the caller.
-spec start(options()) -> gen_server:start_ret().
start(Options) ->
    synthetic_system:start(system(), Options).

-spec stop() -> ok.
stop() ->
    synthetic_system:stop(?MODULE).

%% @doc Changes the system while it runs. A request in progress keeps its delay.
-spec set(rate | delay | slow_1 | slow_2, number()) -> ok | {error, Why :: term()}.
set(Key, Value) ->
    synthetic_system:set(?MODULE, Key, Value).

%% @doc Returns the options, and counts since the start: requests `sent', `done_1' and `done_2'
%% by the workers, and `done' according to the join.
-spec info() -> #{atom() => term()}.
info() ->
    synthetic_system:info(?MODULE).

system() ->
    #{name => ?MODULE,
      %% For each request, the workers watch the clock for half a millisecond. Together they
      %% use a fifth of a core.
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

%% Returns how many workers must be done before the request is done.
decisive(first) -> 1;
decisive(all) -> 2.

request(Worker1, Worker2, Decisive, Count) ->
    Since = erlang:monotonic_time(nanosecond),
    %% The probe ends later than the worker, by the cost of ending a span, so it also starts
    %% later.
    Span1 = beamscope:start_span(<<"worker_1">>),
    Span2 = beamscope:start_span(<<"worker_2">>),
    Probe = beamscope:start_span(<<"probe">>),
    Ends = atomics:new(1, []),
    %% The decisive worker ends the probe itself. A message to another process would add to the
    %% probe's delay but to no worker's.
    Done = fun(Span, Name) ->
                   finish(Span, Name, Count),
                   atomics:add_get(Ends, 1, 1) =:= Decisive andalso finish(Probe, done, Count)
           end,
    delay_station:arrive(Worker1, Since, fun() -> Done(Span1, done_1) end),
    delay_station:arrive(Worker2, Since, fun() -> Done(Span2, done_2) end).

finish({Ctx, Span}, Name, Count) ->
    beamscope:end_span(Ctx, Span),
    Count(Name).
