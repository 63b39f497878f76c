%%% @doc Decides once per VM what spans use: a ring in the VM's memory or the VM's probes, and
%%% OpenTelemetry if it is present. It also decides whether observed spans give their processes
%%% seq_trace tokens. The application's environment selects the carrier of spans, and whether they
%%% set tokens.
%%%
%%% The first span triggers the decision. It loads code, which is too slow to be repeated for each
%%% span. The result does not change while a VM runs, unless code is added or the environment is
%%% changed by hand. Then {@link refresh/0} decides again.
-module(beamscope_facilities).

-export([decide/0, refresh/0, probes/0]).

-export_type([facilities/0]).

-include("beamscope.hrl").
-include_lib("kernel/include/logger.hrl").

-type facilities() :: {Carrier :: none | probes | beamscope_ring:ring(),
                       OpenTelemetry :: boolean(),
                       Tokens :: boolean()}.           % of seq_trace, unless a span says otherwise

%% The longest wait for the process that decides, in ms. After one wait that reached this limit, no
%% process waits any more.
-define(PATIENCE, 2000).
-define(IMPATIENT, beamscope_facilities_impatient).

%% @doc Returns the facilities of this VM. The log mentions missing ones, once. A process of its own
%% decides. All processes that start their first span meanwhile wait for it, so that their spans are
%% recorded too.
-spec decide() -> facilities().
decide() ->
    case ?FACILITIES of
        undecided ->
            Patience = case persistent_term:get(?IMPATIENT, false) of
                           true -> 0;
                           false -> ?PATIENCE
                       end,
            decide(erlang:monotonic_time(millisecond) + Patience, 1);
        Decided ->
            Decided
    end.

%% The deciding process may be killed too, so this function starts another one after a while.
decide(Until, Pause) ->
    _ = whereis(?MODULE) =/= undefined orelse start_decider(),
    case await(Until, Pause) of
        undecided -> decide(Until, min(2 * Pause, 64));
        late -> without_ring();
        Facilities -> Facilities
    end.

%% The process of a span may be killed at any time. If it decided itself, a VM whose span processes
%% live only for some ms might never have a ring. So the deciding process has no link to it.
start_decider() ->
    try spawn(fun decider/0)
    catch
        error:system_limit -> none
    end.

%% The name makes sure that only one process decides. When an application stops, the VM kills all
%% processes that have its group leader. So the deciding process takes another one.
decider() ->
    try register(?MODULE, self()) of
        true ->
            true = group_leader(whereis(init), self()),
            decide_or_give_up()
    catch
        error:badarg -> ok % another process decides
    end.

%% While a VM stops, its code server may be gone, for example.
decide_or_give_up() ->
    try keep(beamscope_otel:available())
    catch
        _:Reason ->
            persistent_term:put(?FACILITIES_KEY, {none, false, false}),
            complain(io_lib:format("spans are not recorded: deciding how failed: ~0tP", [Reason, 9]))
    end.

%% Waits for some ms until another process has decided.
await(Until, Pause) ->
    case {?FACILITIES, erlang:monotonic_time(millisecond) < Until} of
        {undecided, false} -> late;
        {undecided, true} when Pause =:= 0 -> undecided;
        {undecided, true} ->
            receive after 1 -> await(Until, Pause - 1) end;
        {Facilities, _} -> Facilities
    end.

%% The facilities of a span if another process takes too long to decide. There is no ring yet, so
%% such a span is not recorded.
without_ring() ->
    _ = persistent_term:put(?IMPATIENT, true),
    Carrier = case wanted() of
                  probes -> element(1, carrier(probes));
                  ring -> none
              end,
    Carrier =:= none orelse load(),
    {Carrier, beamscope_otel:available(), from_environment(seq_trace, false) =:= true}.

%% The carrier of spans: the ring, unless the environment asks for the VM's probes.
wanted() ->
    case from_environment(carrier, auto) of
        probes -> probes;
        _RingOrAuto -> ring
    end.

keep(Otel) ->
    case ?FACILITIES of
        undecided -> determine(Otel);
        Decided -> Decided
    end.

determine(Otel) ->
    Tokens = from_environment(seq_trace, false),
    {Carrier, Complaint} = carrier(wanted()),
    Carrier =:= none orelse load(),
    Facilities = {Carrier, Otel, Tokens =:= true},
    persistent_term:put(?FACILITIES_KEY, Facilities),
    complain(Complaint),
    Facilities.

carrier(probes) ->
    case probes_or_why() of
        true -> {probes, none};
        Why -> {none, Why}
    end;
carrier(ring) ->
    case beamscope_ring:open() of
        {ok, Ring} -> {Ring, none};
        {error, Why} ->
            {Carrier, _} = carrier(probes),
            {Carrier, Why}
    end.

%% Loads the modules that spans call: those that handle tokens, and those that format the class of a
%% failure. Loading takes milliseconds, which would otherwise be part of the first span. The result
%% is ignored: if a module is missing, the call that needs it fails.
load() ->
    code:ensure_modules_loaded([beamscope_token, seq_trace,
                                io_lib, io_lib_format, io_lib_pretty, string, unicode, unicode_util]).

%% @doc Decides again, after the code path or the application's environment has changed in a running
%% VM. Spans that start or end meanwhile use the earlier decision.
-spec refresh() -> facilities().
refresh() ->
    case ?FACILITIES of
        undecided -> decide();
        _Earlier -> determine(beamscope_otel:available())
    end.

%% A library is often used without being started or even loaded. The VM's configuration of an
%% application is known only after loading it. Loading overrides values set by hand, so this
%% function looks for those first.
from_environment(Key, Default) ->
    case application:get_env(beamscope, Key) of
        {ok, Value} ->
            Value;
        undefined ->
            _ = application:load(beamscope), % there may be no beamscope.app
            application:get_env(beamscope, Key, Default)
    end.

%% @doc Returns whether this VM has probes, and the code to fire them.
-spec probes() -> boolean().
probes() -> probes_or_why() =:= true.

probes_or_why() ->
    try dyntrace:available() of
        true -> true;
        false -> "this VM has no probes: it was built without --with-dynamic-trace"
    catch
        %% undef, or nif_not_loaded: either way there is no dyntrace that works.
        error:_ -> "the module dyntrace of runtime_tools, which fires the VM's probes, is missing or has not loaded"
    end.

complain(none) ->
    ok;
complain(Why) ->
    ?LOG_NOTICE("beamscope: ~ts", [Why]).
