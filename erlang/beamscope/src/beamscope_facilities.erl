%%% @doc Decides, once in the life of a VM, what there is for spans to use: the
%%% VM's probes, OpenTelemetry, both, or nothing; and whether those that are seen give
%%% their processes tokens of seq_trace, as the application's environment says.
%%%
%%% The first span asks. Both questions load code, which is far too slow to be
%%% asked twice; neither answer changes while a VM runs, unless code is added
%%% to it or its environment is changed by hand. Then {@link refresh/0} asks again.
-module(beamscope_facilities).

-export([decide/0, refresh/0, probes/0]).

-export_type([facilities/0]).

-include("beamscope.hrl").
-include_lib("kernel/include/logger.hrl").

-type facilities() :: {Carrier :: none | probes | beamscope_ring:ring(),
                       OpenTelemetry :: boolean(),
                       Tokens :: boolean()}.           % of seq_trace, unless a span says otherwise

%% @doc The facilities of this VM. What it lacks is mentioned in the log, once.
-spec decide() -> facilities().
decide() ->
    Lock = {?MODULE, self()},
    Otel = beamscope_otel:available(),
    %% Of several processes that start their first span at once, one makes the ring. Spans
    %% that the others start meanwhile are not recorded: nobody can read it yet.
    case global:set_lock(Lock, [node()], 0) of
        true ->
            try keep(Otel)
            after
                global:del_lock(Lock, [node()])
            end;
        false ->
            {without_ring(), Otel, from_environment(seq_trace, false) =:= true}
    end.

without_ring() ->
    case wanted() of
        probes -> element(1, carrier(probes));
        ring -> none
    end.

%% What spans are to be carried by: the VM's probes, where it has them, or the ring, unless
%% the environment says which.
wanted() ->
    case from_environment(carrier, auto) of
        probes -> probes;
        ring -> ring;
        _Auto ->
            case probes() of
                true -> probes;
                false -> ring
            end
    end.

keep(Otel) ->
    case ?FACILITIES of
        undecided ->
            Tokens = from_environment(seq_trace, false),
            {Carrier, Complaint} = carrier(wanted()),
            Carrier =:= none orelse load(),
            Facilities = {Carrier, Otel, Tokens =:= true},
            persistent_term:put(?FACILITIES_KEY, Facilities),
            complain(Complaint),
            Facilities;
        Decided ->
            Decided
    end.

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

%% Loads the modules that spans call: those that handle tokens, and those that format the
%% class of a failure. Loading them takes milliseconds, which the first span would count as
%% its own. The result is ignored: a module that is missing fails the call that needs it.
load() ->
    code:ensure_modules_loaded([beamscope_token, seq_trace,
                                io_lib, io_lib_format, io_lib_pretty, string, unicode, unicode_util]).

%% @doc Decides anew, after the code path or the application's environment has
%% changed in a running VM.
-spec refresh() -> facilities().
refresh() ->
    _ = persistent_term:erase(?FACILITIES_KEY),
    decide().

%% A library is often used without being started, or even loaded, and what the VM's
%% configuration says of an application is known from then on only. Loading overrides
%% what was set by hand before, so this looks for that first.
from_environment(Key, Default) ->
    case application:get_env(beamscope, Key) of
        {ok, Value} ->
            Value;
        undefined ->
            _ = application:load(beamscope), % there may be no beamscope.app
            application:get_env(beamscope, Key, Default)
    end.

%% @doc Does this VM have probes, and the code to fire them?
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
