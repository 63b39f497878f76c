%%% @doc Two M/M/1/K queues in a row, the system of the oscilloscope's thesis.
%%%
%%% ```
%%% source --> queue 1 <-> worker 1 --> queue 2 <-> worker 2
%%% '''
%%%
%%% Messages arrive as a Poisson process. A queue has room for K messages, including the one
%%% that the worker handles. Further messages are dropped. A worker spends an exponentially
%%% distributed number of empty loops on each message, or sleeps for an exponentially
%%% distributed time. When workers sleep, messages wait only because of the queues.
%%%
%%% Queues with separate workers are nearly independent. If two queues share one worker, which
%%% takes messages in the order of arrival, they depend on each other, the more the busier the
%%% worker is.
%%%
%%% The processes are registered as `queue_1', `worker_1', `queue_2' and `worker_2'.
%%%
%%% Three outcomes are spans. `worker_1' and `worker_2' last from the arrival at the queue of
%%% their stage until the worker is done. `probe' lasts from the source until worker 2 is done.
%%% Dropped messages fail with class `dropped'.
-module(mm1k).

-export([start_link/1, start/1, stop/0, set/2, info/0, flow/2]).

-export_type([options/0]).

-type options() :: #{rate => number(),                % messages per second
                     k => pos_integer(),              % places in each queue
                     loops => non_neg_integer() | auto, % mean work per message; auto means 1 ms
                     delay => number(),               % mean additional sleep per message, ms
                     shared => boolean(),             % one worker serves both queues
                     seq_trace => boolean(),          % `probe' has a token of seq_trace
                     seed => integer()}.              % determines all random numbers

%% @doc Starts the system. The defaults are 400 messages per second, 10 places and 1 ms of
%% work. Only one such system can run in a VM.
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

%% @doc Changes the system while it runs. A message that is already waiting keeps the number of
%% loops with which it arrived.
-spec set(rate | k | loops | delay, number() | auto) -> ok | {error, Why :: term()}.
set(Key, Value) ->
    synthetic_system:set(?MODULE, Key, Value).

%% @doc Returns the options, and counts since the start: `sent' messages, `dropped_1' and
%% `dropped_2' at the queues, and `done' at the end.
-spec info() -> #{atom() => term()}.
info() ->
    synthetic_system:info(?MODULE).

%% @doc Sends as many messages as possible through a separate system for some time. The caller
%% is the source, and sends a new message whenever one leaves, so that K messages are in the
%% system. The default for loops is 0, and the rate is ignored. Returns the number of messages
%% and the time for each.
-spec flow(options(), Milliseconds :: pos_integer()) -> #{messages := pos_integer(), ns_per_message := float()}.
flow(Options, Milliseconds) ->
    #{defaults := Defaults} = system(),
    #{k := K} = All = maps:merge(Defaults#{loops := 0, seed => 1}, Options),
    Source = self(),
    #{send := Send, stop := Stop} = build(All, fun(_How) -> Source ! {?MODULE, left}, ok end),
    Start = erlang:monotonic_time(nanosecond),
    repeat(K, Send),
    Messages = K + replace(Send, Start + Milliseconds * 1_000_000, 0),
    repeat(K, fun leave/0),
    Elapsed = erlang:monotonic_time(nanosecond) - Start,
    Stop(),
    #{messages => Messages, ns_per_message => Elapsed / Messages}.

repeat(0, _) -> ok;
repeat(N, Do) -> Do(), repeat(N - 1, Do).

replace(Send, Until, N) ->
    case erlang:monotonic_time(nanosecond) < Until of
        true -> leave(), Send(), replace(Send, Until, N + 1);
        false -> N
    end.

leave() -> receive {?MODULE, left} -> ok end.

system() ->
    #{name => ?MODULE,
      %% With these values, each worker is busy 40 % of the time. Together they need less than
      %% a core, and the queues do not overflow when the machine is busier for a moment.
      defaults => #{rate => 400, k => 10, loops => auto, delay => 0, shared => false, seq_trace => false},
      value => fun value/2,
      counts => [dropped_1, dropped_2, done],
      build => fun build/2}.

value(k, K) when is_integer(K), K > 0 -> {ok, K};
value(loops, auto) -> {ok, synthetic_work:loops(1_000_000)};
value(loops, Loops) when is_integer(Loops), Loops >= 0 -> {ok, Loops};
value(delay, Delay) when is_number(Delay), Delay >= 0, Delay =< 60_000 -> {ok, Delay};
value(Key, Value) when Key =:= shared orelse Key =:= seq_trace, is_boolean(Value) -> {ok, Value};
value(_, _) -> error.

build(#{seed := Seed, shared := Shared, seq_trace := SeqTrace} = Options, Count) ->
    Worker1 = mm1k_stage:start_worker({Seed, 1}),
    Worker2 = case Shared of
                  true -> Worker1;
                  false -> mm1k_stage:start_worker({Seed, 2})
              end,
    Stage2 = stage(Worker2, <<"worker_2">>, dropped_2, Options, Count,
                   fun(Probe) -> end_probe(Probe), Count(done) end),
    Stage1 = stage(Worker1, <<"worker_1">>, dropped_1, Options, Count,
                   fun(Probe) -> mm1k_stage:arrive(Stage2, Probe) end),
    lists:foreach(fun call/1, [{queue_1, Stage1}, {queue_2, Stage2}, {worker_1, Worker1}, {worker_2, Worker2}]),
    Parts = lists:usort([Stage1, Stage2, Worker1, Worker2]),
    #{send => fun() -> send(Stage1, SeqTrace) end,
      change => fun(Key, _) when Key =:= shared; Key =:= seq_trace -> {error, {fixed, Key}};
                   (Key, Value) -> lists:foreach(fun(S) -> mm1k_stage:set(S, Key, Value) end, [Stage1, Stage2])
                end,
      stop => fun() -> lists:foreach(fun mm1k_stage:stop/1, Parts) end}.

%% Register names, so that external tools can identify the processes. A shared worker has the
%% first name. Processes of a system that has just been stopped may still have the names.
call({Name, Pid}) ->
    try register(Name, Pid)
    catch error:badarg -> false
    end.

stage(Worker, Name, Dropped, #{k := K, loops := Loops, delay := Delay}, Count, Next) ->
    mm1k_stage:start_link(Worker, #{name => Name, k => K, loops => Loops, delay => Delay, next => Next,
                                    dropped => fun() -> Count(Dropped) end}).

send(Stage, SeqTrace) ->
    {_, Span} = Probe = beamscope:start_span(<<"probe">>, #{seq_trace => SeqTrace}),
    mm1k_stage:arrive(Stage, Probe),
    beamscope:hand_over(Span).

end_probe({Ctx, Span}) -> beamscope:end_span(Ctx, Span).
