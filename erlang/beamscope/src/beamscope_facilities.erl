%%% @doc Decides, once in the life of a VM, what there is for spans to use: the
%%% VM's probes, OpenTelemetry, both, or nothing; and whether those that are seen give
%%% their processes tokens of seq_trace, as the application's environment says.
%%%
%%% The first span asks. Both questions load code, which is far too slow to be
%%% asked twice; neither answer changes while a VM runs, unless code is added
%%% to it or its environment is changed by hand. Then {@link refresh/0} asks again.
-module(beamscope_facilities).

-export([decide/0, refresh/0]).

-export_type([facilities/0]).

-include("beamscope.hrl").
-include_lib("kernel/include/logger.hrl").

-type facilities() :: probes | otel | both | none
                    | {probes | both, seq_trace}. % tokens unless a span says otherwise

%% @doc The facilities of this VM. What it lacks is mentioned in the log, once.
-spec decide() -> facilities().
decide() ->
    {Probes, Complaint} = probes(),
    Probes andalso load(),
    Facilities = facilities(Probes, beamscope_otel:available(), tokens()),
    keep(Facilities, Complaint),
    Facilities.

%% Loads the modules that spans call: those that handle tokens, and those that format the
%% class of a failure. Loading them takes milliseconds, which the first span would count as
%% its own. The result is ignored: a module that is missing fails the call that needs it.
load() ->
    code:ensure_modules_loaded([beamscope_token, seq_trace,
                                io_lib, io_lib_format, io_lib_pretty, string, unicode, unicode_util]).

%% Of several processes that start their first span at once, one writes this
%% down and complains. The others come to the same answer and need not wait.
keep(Facilities, Complaint) ->
    Lock = {?MODULE, self()},
    case global:set_lock(Lock, [node()], 0) of
        true ->
            ?FACILITIES =:= undecided andalso begin
                persistent_term:put(?FACILITIES_KEY, Facilities),
                complain(Complaint)
            end,
            global:del_lock(Lock, [node()]);
        false ->
            true
    end.

%% @doc Decides anew, after the code path or the application's environment has
%% changed in a running VM.
-spec refresh() -> facilities().
refresh() ->
    _ = persistent_term:erase(?FACILITIES_KEY),
    decide().

facilities(true, Otel, true) -> {facilities(true, Otel, false), seq_trace};
facilities(true, true, _) -> both;
facilities(true, false, _) -> probes;
facilities(false, true, _) -> otel;
facilities(false, false, _) -> none.

%% A library is often used without being started, or even loaded, and what the VM's
%% configuration says of an application is known from then on only. Loading overrides
%% what was set by hand before, so this looks for that first.
tokens() ->
    case application:get_env(beamscope, seq_trace) of
        {ok, Tokens} ->
            Tokens;
        undefined ->
            _ = application:load(beamscope), % there may be no beamscope.app
            application:get_env(beamscope, seq_trace, false)
    end.

probes() ->
    try dyntrace:available() of
        true -> {true, none};
        false -> {false, "it was built without --with-dynamic-trace"}
    catch
        %% undef, or nif_not_loaded: either way there is no dyntrace that works.
        error:_ -> {false, "the module dyntrace of runtime_tools, which fires them, is missing or has not loaded"}
    end.

complain(none) ->
    ok;
complain(Why) ->
    ?LOG_NOTICE("beamscope: this VM has no probes, so spans will not be seen: ~ts", [Why]).
