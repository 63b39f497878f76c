%%% @doc The seq_trace token of a span. With a token, a collector can identify the messages that a
%%% process sends, and all messages that result from them.
%%%
%%% No flag of seq_trace is set, so no tracer receives events. The label is derived from the span's
%%% Id, in a reserved range of 31 bits, the size that the VM's probes can report. A span removes
%%% only its own token. So a process ends up with the token that it would have without spans, which
%%% may be that of another process's span, received with a message.
%%%
%%% One token is enough to identify messages, so a span keeps an existing token, whoever set it.
%%% This module sets only the label, never a whole token: that would reset the token's serial
%%% numbers, so that two messages would have the same number.
%%%
%%% Every received message replaces the token, or removes it if the message has none. In a
%%% with_span, the next span that starts or ends restores a removed token.
-module(beamscope_token).

-export([put_on/1, take_off/1, enter/1, leave/1]).

-export_type([label/0, entered/0]).

%% The specification of seq_trace:get_token does not mention that there may be no token.
-dialyzer([no_match, no_unused]).

-define(FIRST, 16#40000000).
-define(LAST, 16#7fffffff).

%% The label that was set by the outermost with_span of this process that set one.
-define(CURRENT, '$beamscope_token').

-type label() :: ?FIRST..?LAST.

-opaque entered() :: set | kept.

%% @doc Gives this process a token, unless it has one or is in a with_span that has one. Returns the
%% label of the new token, for {@link take_off/1}.
-spec put_on(Id :: pos_integer()) -> label() | none.
put_on(Id) ->
    case {get(?CURRENT), seq_trace:get_token(label)} of
        {undefined, []} -> set(label(Id));
        {Label, []} -> _ = set(Label), none;
        {_, _} -> none
    end.

%% @doc Removes the token with this label from this process, if it has it.
-spec take_off(label()) -> ok.
take_off(Label) ->
    case seq_trace:get_token(label) of
        {label, Label} -> _ = seq_trace:set_token([]), ok;
        _ -> ok
    end.

%% @doc Like {@link put_on/1}, at the beginning of a with_span.
-spec enter(Id :: pos_integer()) -> entered().
enter(Id) ->
    case put_on(Id) of
        none -> kept;
        Label -> _ = put(?CURRENT, Label), set
    end.

%% @doc Ends a with_span, with the result of enter/1.
-spec leave(entered()) -> ok.
leave(set) ->
    take_off(erase(?CURRENT));
leave(kept) ->
    case {get(?CURRENT), seq_trace:get_token(label)} of
        {undefined, _} -> ok;
        {Label, []} -> _ = set(Label), ok;
        {_, _} -> ok
    end.

label(Id) ->
    ?FIRST bor (Id band (?FIRST - 1)).

set(Label) ->
    _ = seq_trace:set_token(label, Label),
    Label.
