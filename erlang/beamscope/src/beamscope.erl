%%% @doc Spans for the beamscope oscilloscope.
%%%
%%% A span is one instance of an outcome, from start to end. Its start and end are recorded in the
%%% memory of the Erlang VM, or fire a probe of the VM. A collector outside of the VM does the rest.
%%% This module uses no table and no connection, and a process only for some milliseconds, when the
%%% first span starts. While no collector is attached, a span costs about as much as a small function
%%% call.
%%%
%%% ```
%%% {Ctx, Span} = beamscope:start_span(<<"checkout">>),
%%% ...
%%% beamscope:end_span(Ctx, Span)        % or beamscope:fail_span(Span, timeout)
%%% '''
%%%
%%% With `seq_trace => true' a span gives its process a seq_trace token, which travels with its
%%% messages. So a collector can tell which message caused which. It is off by default, because the
%%% observed system can see the token.
%%%
%%% If the OpenTelemetry API is present, its spans are started and ended together with these.
-module(beamscope).

-export([start_span/1, start_span/2,
         end_span/2,
         fail_span/1, fail_span/2,
         hand_over/1,
         with_span/2, with_span/3]).

-export([text/1, class/1]). % for beamscope_ring

-export_type([name/0, attrs/0, handle/0, span_ctx/0, text/0]).

%% The specification of dyntrace:pn does not mention that iodata may be a binary, which it accepts.
%% Without this option, dialyzer would conclude that no call of it returns.
-dialyzer([no_return, no_fail_call, no_unused]).

-compile({inline, [start/6, record/5, with_token/2, traced/2, parent/1, succeed/1]}).

-include("beamscope.hrl").
-include("beamscope_ring.hrl").

%% The meaning of the probe's arguments. The collector has the same table.
-define(VERSION, 1).
-define(START, 1).
-define(END, 2).
-define(FAIL, 3).
-define(LABELS, 950).
-define(MAX_TEXT, 255).
-define(BIG, (1 bsl 1024)).

%% The class of a span that is not recorded although the VM has a ring, in its Id.
-define(CLASS_BITS, 4).
-define(CLASS_MASK, 15).

%% The handle of the innermost with_span of this process, while it is traced.
-define(CURRENT, '$beamscope_span').

-type name() :: binary() | atom() | unicode:chardata().
%% The name of an outcome. A binary is cheapest. Names are truncated to 255 bytes, so no name can
%% make the observed system fail.

-type attrs() :: #{parent => handle(), seq_trace => boolean(), term() => term()}.
%% The module uses `parent' and `seq_trace'. It passes everything else to OpenTelemetry as the start
%% options of its span, for example `#{attributes => #{...}, kind => server}'. The default of
%% `seq_trace' comes from the application's environment: `{beamscope, [{seq_trace, true}]}',
%% otherwise `false'.

-type fired() :: {Id :: pos_integer(), Label :: 1..?LABELS, Name :: binary()}
               | {Id :: pos_integer(), Label :: 1..?LABELS, Name :: binary(), beamscope_token:label()}
               | {call, Id :: pos_integer(), Label :: 1..?LABELS, Name :: binary()}.
%% The data of a span that programs in the kernel saw.

-type handle() :: beamscope_ring:handle()
                | {explained, fired(), beamscope_ring:handle()}
                | fired()
                | {skip, beamscope_ring:class()}
                | ignore.
%% The data of a span. It may be sent to another process, and the span ended there. The tuple has
%% one more element if the span gave its process a seq_trace token. It is `ignore' if no collector
%% was attached when the span started, and `skip' if the collector's sample does not include the
%% span. Treat it as opaque, except that code may contain `ignore' literally.

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
    case ?FACILITIES of
        {#ring{array = Array, rings = Rings} = Ring, false, Traced} ->
            %% All spans take this path, so it must be fast.
            Scheduler = erlang:system_info(scheduler_id),
            R = ?RING_OF(Scheduler, Rings),
            case atomics:add_get(Array, ?W_CONTROL(R), 0) of
                0 -> {undefined, ignore};
                Control ->
                    Token = traced(Attrs, Traced),
                    {undefined, with_token(start(Ring, R, Control, parent(Attrs), Name, Token), Token)}
            end;
        Facilities ->
            start_span(Facilities, Name, Attrs)
    end.

start_span({Carrier, false, Traced}, Name, Attrs) ->
    Token = traced(Attrs, Traced),
    {undefined, with_token(start(Carrier, Name, Attrs, Token), Token)};
start_span({Carrier, true, Traced}, Name, Attrs) ->
    Ctx = beamscope_otel:start(Name, Attrs),
    Token = traced(Attrs, Traced),
    {Ctx, with_token(start(Carrier, Name, Attrs, Token), Token)};
start_span(undecided, Name, Attrs) ->
    start_span(beamscope_facilities:decide(), Name, Attrs).

%% A span that fires the probe gives its process a token, if that is requested. Others give none: no
%% program in the kernel knows them.
with_token(Handle, false) ->
    Handle;
with_token({explained, Fired, Recorded}, true) ->
    {explained, with_token(Fired, true), Recorded};
with_token({Id, Label, Text} = Handle, true) when is_integer(Id) ->
    case beamscope_token:put_on(Id) of
        none -> Handle;
        Token -> {Id, Label, Text, Token}
    end;
with_token(Handle, true) ->
    Handle.

traced(#{seq_trace := Traced}, _ByDefault) -> Traced =:= true;
traced(_Attrs, ByDefault) -> ByDefault.

%% @doc Ends a span, in any process. `end_span(Ctx, ignore)' ends only the span of OpenTelemetry,
%% which remains to be done after {@link fail_span/2}.
-spec end_span(span_ctx(), handle()) -> ok.
end_span(undefined, Handle) ->
    succeed(Handle);
end_span(Ctx, Handle) ->
    succeed(Handle),
    beamscope_otel:stop(Ctx).

%% @equiv fail_span(Handle, <<>>)
-spec fail_span(handle()) -> ok.
fail_span(Handle) ->
    fail(Handle, <<>>).

%% @doc Ends a span as a failure of some class: an atom, a text, or any other term, which is
%% formatted. The class is truncated to 255 bytes.
%%
%% OpenTelemetry's span stays open, so that you can set its status. `end_span(Ctx, ignore)' closes
%% it. `end_span(Ctx, Handle)' closes it too, but then the collector counts a late end after the
%% failure.
-spec fail_span(handle(), Class :: term()) -> ok.
fail_span(Handle, Class) ->
    case Handle of
        ignore -> ok;
        {skip, _Class} -> ok;
        _ -> fail(Handle, text(Class))
    end.

%% @doc Declares that another process will end a span, which was passed to it in a message that has
%% been sent. Removes the seq_trace token that the span gave this process, because it would
%% otherwise stay on the process's next messages. Does nothing without `seq_trace'.
-spec hand_over(handle()) -> ok.
hand_over({explained, Fired, _Recorded}) -> hand_over(Fired);
hand_over({Id, _Label, _Name, Token}) when is_integer(Id) -> beamscope_token:take_off(Token);
hand_over(_Handle) -> ok.

%% @equiv with_span(Name, Fun, #{})
-spec with_span(name(), fun(() -> Result)) -> Result.
with_span(Name, Fun) ->
    with_span(Name, Fun, #{}).

%% @doc Runs `Fun' inside a span and returns its result. If it raises an exception, the span fails
%% with a class such as `error:badarith', and the exception propagates with its own stack trace. The
%% class of a failed call, as of gen_server, does not contain the arguments. Spans started inside have this one as parent.
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
    Token = traced(Attrs, ByDefault),
    case start(Carrier, Name, Attrs, Token) of
        ignore -> Fun();
        {skip, _Class} = Handle -> skipped(Fun, put(?CURRENT, Handle));
        {explained, {Id, _Label, _Text}, _Recorded} = Handle when Token -> watched_with_token(Id, Handle, Fun);
        {Id, _Label, _Text} = Handle when Token, is_integer(Id) -> watched_with_token(Id, Handle, Fun);
        Handle -> watched(Handle, Fun, put(?CURRENT, Handle))
    end.

%% The spans inside must know that they are not observed either.
skipped(Fun, Outer) ->
    try Fun()
    after
        restore(Outer)
    end.

watched_with_token(Id, Handle, Fun) ->
    Entered = beamscope_token:enter(Id),
    try watched(Handle, Fun, put(?CURRENT, Handle))
    after
        beamscope_token:leave(Entered)
    end.

watched(Handle, Fun, Outer) ->
    try Fun() of
        Result ->
            succeed(Handle),
            Result
    catch
        Class:Reason:Stack ->
            fail(Handle, summary(Class, Reason)),
            erlang:raise(Class, Reason, Stack)
    after
        restore(Outer)
    end.

restore(undefined) -> erase(?CURRENT);
restore(Outer) -> put(?CURRENT, Outer).

start(#ring{array = Array, rings = Rings} = Ring, Name, Attrs, Token) ->
    Scheduler = erlang:system_info(scheduler_id),
    R = ?RING_OF(Scheduler, Rings),
    case atomics:add_get(Array, ?W_CONTROL(R), 0) of
        0 -> ignore; % nobody reads
        Control -> start(Ring, R, Control, parent(Attrs), Name, Token)
    end;
start(probes, Name, Attrs, _Token) ->
    fire(probes, erlang:unique_integer([positive]), parent_id(parent(Attrs)), text(Name));
start(_NothingToUse, _Name, _Attrs, _Token) -> % or what another version of this module has left
    ignore.

%% A span that gives its process a token fires the probe, like spans that are explained.
start(#ring{probes = true} = Ring, R, Control, Parent, Name, true) ->
    record(Ring, R, Control bor ?ALL_EXPLAINED, Parent, Name);
start(Ring, R, Control, Parent, Name, _Token) ->
    record(Ring, R, Control, Parent, Name).

%% An explained span fires the probe, and is recorded too. If no collector listens to the probe, the
%% span is only recorded.
record(Ring, R, Control, Parent, Name) ->
    case beamscope_ring:start(Ring, R, Control, Parent, Name) of
        {explain, Class} ->
            Id = (erlang:unique_integer([positive]) bsl ?CLASS_BITS) bor Class,
            case fire(Ring, Id, parent_id(Parent), text(Name)) of
                ignore -> beamscope_ring:record(Ring, R, Control, Class, false, Parent, Name);
                Fired -> {explained, Fired, beamscope_ring:record(Ring, R, Control, Class, true, Parent, Name)}
            end;
        Handle ->
            Handle
    end.

%% A single call fires the probe and reports whether a collector listens. If none saw the start of a
%% span, its end is not reported.
fire(#ring{probes = false}, Id, Parent, Name) ->
    Handle = {call, Id, label(Name), Name},
    call(Handle, ?START, Parent, <<>>),
    Handle;
fire(_, Id, Parent, Name) ->
    Label = label(Name),
    case dyntrace:pn(Label, Id, ?START, ?VERSION, Parent, Name, <<>>) of
        true -> {Id, Label, Name};
        _NobodyListens -> ignore
    end.

label(Name) -> 1 + erlang:crc32(Name) rem ?LABELS.

%% In a VM without probes, programs in the kernel see the calls of ets:is_compiled_ms/1, which hardly
%% any other code calls. It returns false for our tuple, and has no other effect. The programs
%% recognise the tuple by its first element.
call({call, Id, Label, Name}, Kind, Parent, Detail) ->
    false = ets:is_compiled_ms({?MAGIC_1, ?VERSION, Label, Kind, Id, Parent, digits(Name), detail(Detail)}),
    ok.

detail(<<>>) -> 0;
detail(Detail) -> digits(Detail).

%% Converts a text to an integer that the VM stores as a large one, also for an empty text. A large
%% integer contains the bytes of the text in their order, and then zero bytes, on all releases. The
%% layout of binaries differs between releases.
digits(Text) ->
    Size = byte_size(Text),
    <<Number:Size/little-unit:8>> = Text,
    Number bor (1 bsl ((Size + 8) * 8)).

%% Ignores a span of another VM, or of a previous run of this VM.
succeed({ring, Birth, Id, Name}) ->
    case ?FACILITIES of
        {#ring{birth = Birth} = Ring, _, _} -> beamscope_ring:success(Ring, Id, Name);
        _ -> ok
    end;
succeed(ignore) ->
    ok;
succeed({explained, Fired, {ring, Birth, Id, Name}}) ->
    case beamscope_ring:made(Birth) of
        none -> ok;
        Ring ->
            ok = beamscope_ring:success_explained(Ring, Id, Name),
            fire_end(Fired, ?END, <<>>)
    end;
succeed(Handle) ->
    fire_end(Handle, ?END, <<>>).

fail({ring, Birth, Id, Name}, Class) ->
    case ?FACILITIES of
        {#ring{birth = Birth} = Ring, _, _} -> beamscope_ring:failure(Ring, Id, Name, Class);
        _ -> ok
    end;
fail({explained, Fired, {ring, Birth, Id, Name}}, Class) ->
    case beamscope_ring:made(Birth) of
        none -> ok;
        Ring ->
            ok = beamscope_ring:failure_explained(Ring, Id, Name, Class),
            fire_end(Fired, ?FAIL, Class)
    end;
fail(Handle, Class) ->
    fire_end(Handle, ?FAIL, Class).

fire_end({Id, Label, Name}, Kind, Detail) ->
    _ = dyntrace:pn(Label, Id, Kind, ?VERSION, 0, Name, Detail),
    ok;
fire_end({call, _Id, _Label, _Name} = Handle, Kind, Detail) ->
    call(Handle, Kind, 0, Detail);
fire_end({Id, Label, Name, Token}, Kind, Detail) ->
    fire_end({Id, Label, Name}, Kind, Detail),
    beamscope_token:take_off(Token);
fire_end(_Unseen, _Kind, _Detail) ->
    ok.

%% The handle of the span that becomes the parent.
parent(#{parent := Parent}) -> Parent;
parent(_) -> get(?CURRENT).

%% @doc The class of the root of a span that is not in this VM's ring.
-spec class(handle()) -> beamscope_ring:class() | none.
class({skip, Class}) -> Class;
class({explained, _Fired, Recorded}) -> class(Recorded);
class({ring, _Birth, Id, _Name}) -> Id bsr ?CLASS_SHIFT;
class({call, Id, _Label, _Name}) -> Id band ?CLASS_MASK;
class({Id, _Label, _Name}) -> Id band ?CLASS_MASK;
class({Id, _Label, _Name, _Token}) -> Id band ?CLASS_MASK;
class(_) -> none.

%% The id of a parent for the probes. A parent in the ring has no id there.
parent_id({explained, Fired, _Recorded}) -> parent_id(Fired);
parent_id({call, Id, _Label, _Name}) -> Id;
parent_id({Id, _Label, _Name}) when is_integer(Id) -> Id;
parent_id({Id, _Label, _Name, _Token}) when is_integer(Id) -> Id;
parent_id(_) -> 0.

%% @doc Converts any term to a text that probes and rings can carry. So an unusual term appears on
%% the oscilloscope's screen, and does not crash the observed system.
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
summary(exit, Reason) ->
    text(<<"exit:", (print(without_arguments(short(Reason))))/binary>>);
summary(Class, Reason) ->
    text(<<(atom_to_binary(Class))/binary, $:, (format(Reason))/binary>>).

%% If a call fails, such as one of gen_server, the reason of the exit contains its arguments. They
%% differ from call to call, and would make each failure a class of its own. Only the name of the
%% called process remains, if it is an atom. The reason may be that of another call, which the called
%% process made.
without_arguments({Reason, {Module, Function, Args}}) when is_atom(Module), is_atom(Function), is_list(Args) ->
    case Reason =:= timeout orelse calls(Module) of
        true -> {without_arguments(Reason), location(Module, Function, Args)};
        false -> {Reason, {Module, Function, Args}}
    end;
without_arguments(Reason) ->
    Reason.

location(Module, Function, [Name | _]) when is_atom(Name) -> {Module, Function, [Name]};
location(Module, Function, _Args) -> {Module, Function}.

%% The modules whose functions exit with {Reason, {Module, Function, Args}}.
calls(gen_server) -> true;
calls(gen_statem) -> true;
calls(gen_event) -> true;
calls(gen_fsm) -> true;
calls(gen) -> true;
calls('Elixir.GenServer') -> true;
calls('Elixir.Task') -> true;
calls(_) -> false.

format(Term) -> print(short(Term)).

print(Term) -> unicode:characters_to_binary(io_lib:format("~0tp", [Term], [{chars_limit, ?MAX_TEXT}])).

short(Term) ->
    {Short, _} = prune(Term, ?MAX_TEXT),
    Short.

%% The first parts of a term, up to a number. chars_limit only limits the formatted output: an
%% integer with a million digits would be converted completely before.
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
