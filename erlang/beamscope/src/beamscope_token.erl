%%% @doc The seq_trace token of a span: messages that a process sends while it has
%%% one can be told apart by whoever watches, and so can all that is sent because
%%% of them.
%%%
%%% No flag of seq_trace is set, so no tracer hears of it. The label is made of the
%%% span's Id, in a range of its own that fits what the VM's probes can show of a
%%% label, 31 bits. A span takes off its own token only: what a process is left with is
%%% what it would be left with if no span of it had one. That may be the token of
%%% another process's span, which a message brought.
%%%
%%% One token is enough to tell messages apart: a span leaves the one that it finds,
%%% whoever set it. Only the label is ever set, never a token as a whole. Its numbers
%%% would go back to what they were, and be given to a second message.
%%%
%%% Any message that is received replaces the token, by none if it came without. A
%%% process in a with_span has it put on again, when it has none, by the next span that
%%% starts or ends.
-module(beamscope_token).

-export([put_on/1, take_off/1, enter/1, leave/1]).

-export_type([label/0, entered/0]).

%% The specification of seq_trace:get_token forgets that there may be no token.
-dialyzer([no_match, no_unused]).

-define(FIRST, 16#40000000).
-define(LAST, 16#7fffffff).

%% The label that the with_span which this process is in has set, the outermost one
%% that did.
-define(CURRENT, '$beamscope_token').

-type label() :: ?FIRST..?LAST.

-opaque entered() :: set | kept.

%% @doc Gives this process a token, unless it has one or is in a with_span that has.
%% Returns its label then, for {@link take_off/1}.
-spec put_on(Id :: pos_integer()) -> label() | none.
put_on(Id) ->
    case {get(?CURRENT), seq_trace:get_token(label)} of
        {undefined, []} -> set(label(Id));
        {Label, []} -> _ = set(Label), none;
        {_, _} -> none
    end.

%% @doc Takes the token with this label off this process, if it has it.
-spec take_off(label()) -> ok.
take_off(Label) ->
    case seq_trace:get_token(label) of
        {label, Label} -> _ = seq_trace:set_token([]), ok;
        _ -> ok
    end.

%% @doc As {@link put_on/1}, at the beginning of a with_span.
-spec enter(Id :: pos_integer()) -> entered().
enter(Id) ->
    case put_on(Id) of
        none -> kept;
        Label -> _ = put(?CURRENT, Label), set
    end.

%% @doc At its end, with what enter/1 has returned.
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
