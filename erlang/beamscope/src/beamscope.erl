%%% @doc Spans for the beamscope oscilloscope.
%%%
%%% A span is one instance of an outcome on its way from start to end. Starting
%%% and ending it fires a probe of the Erlang VM; whoever watches from outside
%%% does the rest. There is no process, no table and no connection in here, and
%%% while nobody watches, a span costs about as much as a small function call.
%%%
%%% ```
%%% {Ctx, Span} = beamscope:start_span(<<"checkout">>),
%%% ...
%%% beamscope:end_span(Ctx, Span)        % or beamscope:fail_span(Span, timeout)
%%% '''
%%%
%%% With `seq_trace => true' a span gives its process a token of seq_trace, which
%%% travels with its messages, so that whoever watches knows what led to what. It is
%%% off by default, as the observed system can see it.
%%%
%%% Where the OpenTelemetry API is present its spans are started and ended
%%% along with ours.
-module(beamscope).

-export([start_span/1, start_span/2,
         end_span/2,
         fail_span/1, fail_span/2,
         hand_over/1,
         with_span/2, with_span/3]).

-export([text/1]). % for beamscope_ring

-export_type([name/0, attrs/0, handle/0, span_ctx/0, text/0]).

%% The specification of dyntrace:pn forgets that iodata may be a binary, which is
%% what it does take; dialyzer would believe that no call of it ever returns.
-dialyzer([no_return, no_fail_call, no_unused]).

-include("beamscope.hrl").

%% What the probe's arguments mean; the collector reads the same table.
-define(VERSION, 1).
-define(START, 1).
-define(END, 2).
-define(FAIL, 3).
-define(LABELS, 950).
-define(MAX_TEXT, 255).
-define(BIG, (1 bsl 1024)).

%% The class of a span that fires the probe though the VM has a ring, in its Id.
-define(CLASS_BITS, 4).
-define(CLASS_MASK, 15).

%% The handle of the innermost with_span of this process, while it is watched.
-define(CURRENT, '$beamscope_span').

-type name() :: binary() | atom() | unicode:chardata().
%% The name of an outcome. A binary is cheapest. At most 255 bytes count: more
%% are cut off, so that no name can ever make the observed system fail.

-type attrs() :: #{parent => handle(), seq_trace => boolean(), term() => term()}.
%% `parent' and `seq_trace' are ours; everything else is handed to OpenTelemetry as
%% the start options of its span, `#{attributes => #{...}, kind => server}' for
%% instance. Without `seq_trace' it is as the environment of the application says:
%% `{beamscope, [{seq_trace, true}]}', and `false' by default.

-type handle() :: beamscope_ring:handle()
                | {Id :: pos_integer(), Label :: 1..?LABELS, Name :: binary()}
                | {Id :: pos_integer(), Label :: 1..?LABELS, Name :: binary(), beamscope_token:label()}
                | {skip, beamscope_ring:class()}
                | ignore.
%% All there is to know about a span; it may be sent to another process, to be
%% ended there. It has one element more where it was the span that gave its process a
%% token of seq_trace. `ignore' when nobody watched as the span started, `skip' when the
%% watcher takes a sample that it is not in. Treat it as opaque, except that `ignore'
%% may be written out.

-type text() :: binary(). % of at most 255 bytes

-type span_ctx() :: undefined | term().
%% OpenTelemetry's span context, `undefined' without OpenTelemetry.

%% @equiv start_span(Name, #{})
-spec start_span(name()) -> {span_ctx(), handle()}.
start_span(Name) ->
    start_span(Name, #{}).

%% @doc Starts a span. Its parent is the one given in `Attrs', else the
%% with_span that this process is in, else none.
-spec start_span(name(), attrs()) -> {span_ctx(), handle()}.
start_span(Name, Attrs) ->
    start_span(?FACILITIES, Name, Attrs).

start_span({Carrier, Otel, Traced}, Name, Attrs) ->
    {start_otel(Otel, Name, Attrs), open(Carrier, Name, Attrs, Traced)};
start_span(undecided, Name, Attrs) ->
    start_span(beamscope_facilities:decide(), Name, Attrs).

start_otel(true, Name, Attrs) -> beamscope_otel:start(Name, Attrs);
start_otel(false, _Name, _Attrs) -> undefined.

open(Carrier, Name, Attrs, ByDefault) ->
    case start(Carrier, Name, Attrs) of
        {Id, Label, Text} = Handle when is_integer(Id) ->
            case traced(Attrs, ByDefault) andalso beamscope_token:put_on(Id) of
                Token when is_integer(Token) -> {Id, Label, Text, Token};
                _ -> Handle
            end;
        Handle ->
            Handle
    end.

%% Only spans that fire probes have tokens: nothing else sees what tokens travel with.
traced(#{seq_trace := Traced}, _ByDefault) -> Traced =:= true;
traced(_Attrs, ByDefault) -> ByDefault.

%% @doc Ends a span, in any process. `end_span(Ctx, ignore)' ends only the span
%% of OpenTelemetry, which is what is left to do after {@link fail_span/2}.
-spec end_span(span_ctx(), handle()) -> ok.
end_span(undefined, Handle) ->
    finish(Handle, success, <<>>);
end_span(Ctx, Handle) ->
    finish(Handle, success, <<>>),
    beamscope_otel:stop(Ctx).

%% @equiv fail_span(Handle, <<>>)
-spec fail_span(handle()) -> ok.
fail_span(Handle) ->
    finish(Handle, failure, <<>>).

%% @doc Ends a span as a failure of some class: an atom, a text, or any term,
%% which is then formatted. At most 255 bytes count.
%%
%% OpenTelemetry's span stays open, so that its status can be set as you see
%% fit; `end_span(Ctx, ignore)' closes it. `end_span(Ctx, Handle)' does too, but
%% its end comes after the failure and counts as late at the collector.
-spec fail_span(handle(), Class :: term()) -> ok.
fail_span(Handle, Class) ->
    case Handle of
        ignore -> ok;
        {skip, _Class} -> ok;
        _ -> finish(Handle, failure, text(Class))
    end.

%% @doc Says that a span was given away, in a message that has been sent: another
%% process will end it. Takes off the token of seq_trace that it gave this process,
%% which would otherwise go with what the process does next. Does nothing without
%% `seq_trace'.
-spec hand_over(handle()) -> ok.
hand_over({Id, _Label, _Name, Token}) when is_integer(Id) -> beamscope_token:take_off(Token);
hand_over(_Handle) -> ok.

%% @equiv with_span(Name, Fun, #{})
-spec with_span(name(), fun(() -> Result)) -> Result.
with_span(Name, Fun) ->
    with_span(Name, Fun, #{}).

%% @doc Runs `Fun' inside a span and returns what it returns. When it raises,
%% the span fails with a class such as `error:badarith', and the exception goes
%% on with its own stack trace. Spans started inside have this one as parent.
-spec with_span(name(), fun(() -> Result), attrs()) -> Result.
with_span(Name, Fun, Attrs) ->
    with_span(?FACILITIES, Name, Fun, Attrs).

with_span({Carrier, true, Traced}, Name, Fun, Attrs) ->
    beamscope_otel:with(Name, Attrs, fun() -> within(Carrier, Name, Fun, Attrs, Traced) end);
with_span({Carrier, false, Traced}, Name, Fun, Attrs) ->
    within(Carrier, Name, Fun, Attrs, Traced);
with_span(undecided, Name, Fun, Attrs) ->
    with_span(beamscope_facilities:decide(), Name, Fun, Attrs).

within(Carrier, Name, Fun, Attrs, ByDefault) ->
    case start(Carrier, Name, Attrs) of
        ignore -> Fun();
        {skip, _Class} = Handle -> skipped(Fun, put(?CURRENT, Handle));
        {Id, _Label, _Name} = Handle when is_integer(Id) ->
            case traced(Attrs, ByDefault) of
                false -> watched(Handle, Fun, put(?CURRENT, Handle));
                true -> watched_with_token(Handle, Fun)
            end;
        Handle -> watched(Handle, Fun, put(?CURRENT, Handle))
    end.

%% The spans inside have to know that they are not to be seen either.
skipped(Fun, Outer) ->
    try Fun()
    after
        restore(Outer)
    end.

watched_with_token({Id, _Label, _Name} = Handle, Fun) ->
    Entered = beamscope_token:enter(Id),
    try watched(Handle, Fun, put(?CURRENT, Handle))
    after
        beamscope_token:leave(Entered)
    end.

watched(Handle, Fun, Outer) ->
    try Fun() of
        Result ->
            finish(Handle, success, <<>>),
            Result
    catch
        Class:Reason:Stack ->
            finish(Handle, failure, summary(Class, Reason)),
            erlang:raise(Class, Reason, Stack)
    after
        restore(Outer)
    end.

restore(undefined) -> erase(?CURRENT);
restore(Outer) -> put(?CURRENT, Outer).

start(none, _Name, _Attrs) ->
    ignore;
start(probes, Name, Attrs) ->
    fire(erlang:unique_integer([positive]), parent_id(parent(Attrs)), text(Name));
start(Ring, Name, Attrs) ->
    case beamscope_ring:control(Ring) of
        0 -> ignore;
        Control -> start(Ring, Control, Name, parent(Attrs))
    end.

start(Ring, Control, Name, Parent) ->
    case beamscope_ring:start(Ring, Control, lineage(Ring, Parent), Name) of
        {probe, Class} ->
            fire((erlang:unique_integer([positive]) bsl ?CLASS_BITS) bor Class, parent_id(Parent), text(Name));
        Handle ->
            Handle
    end.

%% Firing the probe and asking whether anybody listens are one call: a span
%% that nobody saw start is not worth ending.
fire(Id, Parent, Name) ->
    Label = 1 + erlang:crc32(Name) rem ?LABELS,
    case dyntrace:pn(Label, Id, ?START, ?VERSION, Parent, Name, <<>>) of
        true -> {Id, Label, Name};
        _NobodyListens -> ignore
    end.

finish({ring, _Birth, _Id, _Name} = Handle, How, Detail) ->
    case ?FACILITIES of
        {Ring, _, _} when is_tuple(Ring) -> beamscope_ring:finish(Ring, Handle, How, Detail);
        _ -> ok
    end;
finish({Id, Label, Name}, How, Detail) ->
    _ = dyntrace:pn(Label, Id, kind(How), ?VERSION, 0, Name, Detail),
    ok;
finish({Id, Label, Name, Token}, How, Detail) ->
    finish({Id, Label, Name}, How, Detail),
    beamscope_token:take_off(Token);
finish(_Unseen, _How, _Detail) ->
    ok.

kind(success) -> ?END;
kind(failure) -> ?FAIL.

%% The handle of the span within which one starts.
parent(#{parent := Parent}) -> Parent;
parent(_) -> get(?CURRENT).

%% The parent and the class of its root. A parent that the ring does not have, because it
%% fired the probe or is a span of another VM, has a class alone.
lineage(_Ring, undefined) -> root;
lineage(_Ring, {skip, Class}) -> Class;
lineage(Ring, {ring, Birth, Id, _Name}) -> beamscope_ring:lineage(Ring, Birth, Id);
lineage(_Ring, {Id, _Label, _Name}) -> Id band ?CLASS_MASK;
lineage(_Ring, {Id, _Label, _Name, _Token}) -> Id band ?CLASS_MASK;
lineage(_Ring, _) -> root.

%% What the probes call it: a parent in the ring has no name there.
parent_id({Id, _Label, _Name}) when is_integer(Id) -> Id;
parent_id({Id, _Label, _Name, _Token}) when is_integer(Id) -> Id;
parent_id(_) -> 0.

%% @doc Whatever we are given becomes a text that probes and rings can carry. An oddity shows up
%% on the oscilloscope's screen and not as a crash of the system it watches.
-spec text(term()) -> text().
text(Bin) when is_binary(Bin), byte_size(Bin) =< ?MAX_TEXT -> Bin;
text(Bin) when is_binary(Bin) -> binary:part(Bin, 0, ?MAX_TEXT);
text(Atom) when is_atom(Atom) -> text(atom_to_binary(Atom));
text(Term) ->
    try unicode:characters_to_binary(Term) of
        Bin when is_binary(Bin) -> text(Bin);
        _NotText -> text(format(Term))
    catch
        error:badarg -> text(format(Term))
    end.

summary(Class, Reason) when is_atom(Reason) ->
    text(<<(atom_to_binary(Class))/binary, $:, (atom_to_binary(Reason))/binary>>);
summary(Class, Reason) ->
    text(<<(atom_to_binary(Class))/binary, $:, (format(Reason))/binary>>).

format(Term) ->
    {Short, _} = prune(Term, ?MAX_TEXT),
    unicode:characters_to_binary(io_lib:format("~0tp", [Short], [{chars_limit, ?MAX_TEXT}])).

%% The first parts of a term, so many: chars_limit bounds what comes out of
%% formatting, but an integer of a million digits is converted whole before.
prune(_, 0) ->
    {'...', 0};
prune(Int, Left) when is_integer(Int), abs(Int) >= ?BIG ->
    {'big integer', Left - 1};
prune([Head | Tail], Left0) ->
    {Head1, Left1} = prune(Head, Left0 - 1),
    {Tail1, Left2} = prune(Tail, Left1),
    {[Head1 | Tail1], Left2};
prune(Tuple, Left0) when is_tuple(Tuple), tuple_size(Tuple) =< ?MAX_TEXT ->
    {Elements, Left1} = lists:mapfoldl(fun prune/2, Left0 - 1, tuple_to_list(Tuple)),
    {list_to_tuple(Elements), Left1};
prune(Tuple, Left) when is_tuple(Tuple) ->
    {{'tuple of', tuple_size(Tuple)}, Left - 1};
prune(Map, Left) when is_map(Map) ->
    {{'map of', map_size(Map)}, Left - 1};
prune(<<Start:?MAX_TEXT/binary, _, _/bits>>, Left) ->
    {Start, Left - 1};
prune(Term, Left) ->
    {Term, Left - 1}.
