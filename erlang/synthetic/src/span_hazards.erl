%%% @doc What can happen to a process while it records a span, for tests of collectors.
%%%
%%% A record is several calls, and the VM may preempt a process at each of them. cut/2 and hold/2 try
%%% every such place in turn. They need a VM with one scheduler: then this process, which has a higher
%%% priority, runs as soon as the other one is preempted.
-module(span_hazards).

-export([lease/1, head/0, records/1, cut/2, hold/2, release/0, take/0, put/3, extend/2]).

%% The layout of a ring is in beamscope_ring.hrl. All functions use the first ring.
-define(RING, (persistent_term:get(beamscope_ring_5))).
-define(W_LOG_SLOTS, 6).
-define(W_SLOTS, 9).
-define(W_EXTENSIONS, 14).
-define(W_HEAD, 65).
-define(W_CONTROL, 66).
-define(LAP_SHIFT, 52).
-define(KIND_SHIFT, 49).
-define(LEASE_SHIFT, 27).
-define(LEASE_MASK, 16#3FFFFFF).
-define(LEASE_MAX, 64).

%% The reductions that a process has before it is preempted.
-define(SLICE, 4000).

-type slot() :: pos_integer().

%% @doc Makes the lease as long as spans allow, about 8 seconds. All spans are recorded, and starts
%% with their process if that is wanted.
-spec lease(boolean()) -> ok.
lease(WithProcess) ->
    Until = ((os:perf_counter() bsr ?LEASE_SHIFT) + ?LEASE_MAX) band ?LEASE_MASK,
    Process = if WithProcess -> 1 bsl 26; true -> 0 end,
    atomics:put(array(), ?W_CONTROL, (16#FFFF bsl 43) bor Process bor Until).

%% @doc The slot that was taken last.
-spec head() -> slot().
head() -> atomics:get(array(), ?W_HEAD).

%% @doc The numbers of starts, successes and failures from a slot on, and of slots without a complete
%% record. The ring must not have been full since.
-spec records(slot()) -> {Starts :: non_neg_integer(), Successes :: non_neg_integer(), Failures :: non_neg_integer(), Torn :: non_neg_integer()}.
records(From) ->
    Kinds = [kind(Slot) || Slot <- lists:seq(From, head())],
    list_to_tuple([length([K || K <- Kinds, K =:= Kind]) || Kind <- [1, 2, 3, torn]]).

kind(Slot) ->
    Array = array(),
    At = record(Slot),
    [W0, W1] = [atomics:get(Array, At), atomics:get(Array, At + 1)],
    case [lap(Slot), lap(Slot)] =:= [W bsr ?LAP_SHIFT || W <- [W0, W1]] of
        true -> (W1 bsr ?KIND_SHIFT) band 3;
        false -> torn
    end.

%% @doc Starts spans, each in a process of its own that ends it, and kills each process where it is
%% preempted: the first one after one reduction, and the last one after Most.
-spec cut(beamscope:name(), Most :: pos_integer()) -> ok.
cut(Name, Most) ->
    _ = process_flag(priority, high),
    lists:foreach(fun(Reductions) ->
                          Pid = preempted(Name, Reductions),
                          Monitor = monitor(process, Pid),
                          true = exit(Pid, kill),
                          receive {'DOWN', Monitor, process, Pid, _} -> ok end
                  end, lists:seq(1, Most)).

%% @doc Like cut/2, but suspends the processes. They go on when release/0 is called.
-spec hold(beamscope:name(), Most :: pos_integer()) -> ok.
hold(Name, Most) ->
    Self = self(),
    Holder = spawn(fun() ->
                           _ = process_flag(priority, high),
                           Pids = [begin
                                       Pid = preempted(Name, Reductions),
                                       ok = suspend(Pid),
                                       Pid
                                   end || Reductions <- lists:seq(1, Most)],
                           Self ! held,
                           receive {release, From} -> ok end,
                           Monitors = [monitor(process, Pid) || Pid <- Pids],
                           ok = lists:foreach(fun resume/1, Pids),
                           _ = [receive {'DOWN', Monitor, process, _, _} -> ok end || Monitor <- Monitors],
                           From ! released
                   end),
    true = register(?MODULE, Holder),
    receive held -> ok end.

%% @doc Lets the processes of hold/2 go on, and returns when they have ended their spans.
-spec release() -> ok.
release() ->
    ?MODULE ! {release, self()},
    receive released -> ok end.

%% The process may have ended.
suspend(Pid) ->
    try erlang:suspend_process(Pid) of true -> ok
    catch error:badarg -> ok
    end.

resume(Pid) ->
    try erlang:resume_process(Pid) of true -> ok
    catch error:badarg -> ok
    end.

%% Returns a process that was preempted a number of reductions after it began with a span.
preempted(Name, Reductions) ->
    Self = self(),
    Pid = spawn(fun() ->
                        true = erlang:yield(),
                        Self ! {self(), begins},
                        true = erlang:bump_reductions(?SLICE - Reductions),
                        {Ctx, Span} = beamscope:start_span(Name),
                        ok = beamscope:end_span(Ctx, Span)
                end),
    receive {Pid, begins} -> Pid end.

%% @doc Takes a slot, as a record does.
-spec take() -> slot().
take() -> atomics:add_get(array(), ?W_HEAD, 1).

%% @doc Writes the first (0) or second (1) word of a slot's record, without its lap.
-spec put(slot(), 0..1, non_neg_integer()) -> ok.
put(Slot, Word, Value) ->
    atomics:put(array(), record(Slot) + Word, lap(Slot) bsl ?LAP_SHIFT bor Value).

%% @doc Writes the extension of a slot, without its lap.
-spec extend(slot(), non_neg_integer()) -> ok.
extend(Slot, Value) ->
    Array = array(),
    atomics:put(Array, atomics:get(Array, ?W_EXTENSIONS) + index(Slot), lap(Slot) bsl ?LAP_SHIFT bor Value).

array() -> element(2, ?RING).

record(Slot) -> atomics:get(array(), ?W_SLOTS) + 2 * index(Slot).

index(Slot) -> Slot band ((1 bsl log()) - 1).

lap(Slot) -> (Slot bsr log()) band 16#7F.

log() -> atomics:get(array(), ?W_LOG_SLOTS).
