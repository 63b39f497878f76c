%%% @doc Puts spans around what an ejabberd does with the messages of its users.
%%%
%%% Hooks of ejabberd start and end the spans, so the server itself is not changed:
%%%
%%%   delivery   from the sender's process, which has just read a message, to the receiver's process,
%%%              which sends it next. The message carries the span
%%%   check      what a filter of messages takes, which is a process that every sender asks. It works
%%%              for a millisecond on each message
-module(ejabberd_spans).

-export([run/1]).
-export([sent/1, checked/1, received/1, filter/0]).

-define(HOST, <<"localhost">>).
-define(WORK, 1000). % microseconds of the filter for each message

%% @doc Has messages run in spans for some seconds, and returns the number of those that were delivered.
-spec run(Seconds :: pos_integer()) -> Delivered :: non_neg_integer().
run(Seconds) ->
    Count = counters:new(1, []),
    persistent_term:put(?MODULE, Count),
    Filter = spawn(?MODULE, filter, []),
    true = register(message_filter, Filter),
    %% Modules of ejabberd have places from 20 to 100 in these hooks.
    Hooks = [{user_send_packet, sent, 1}, {user_send_packet, checked, 2}, {user_receive_packet, received, 110}],
    [ok = ejabberd_hooks:add(Hook, ?HOST, ?MODULE, Function, Place) || {Hook, Function, Place} <- Hooks],
    timer:sleep(timer:seconds(Seconds)),
    [ok = ejabberd_hooks:delete(Hook, ?HOST, ?MODULE, Function, Place) || {Hook, Function, Place} <- Hooks],
    exit(Filter, kill),
    counters:get(Count, 1).

%% @private A process of a user has read a stanza.
sent({Stanza, State}) when element(1, Stanza) =:= message ->
    {xmpp:put_meta(Stanza, ?MODULE, beamscope:start_span(<<"delivery">>)), State};
sent(Other) ->
    Other.

%% @private The filter is asked about a stanza.
checked({Stanza, _} = Acc) when element(1, Stanza) =:= message ->
    ok = beamscope:with_span(<<"check">>, fun() -> ask(message_filter, Stanza) end),
    Acc;
checked(Other) ->
    Other.

%% @private A process of a user sends a stanza to its client next.
received({Stanza, _} = Acc) ->
    case element(1, Stanza) =:= message andalso xmpp:get_meta(Stanza, ?MODULE, none) of
        {Ctx, Span} ->
            beamscope:end_span(Ctx, Span),
            counters:add(persistent_term:get(?MODULE), 1, 1);
        _ -> ok
    end,
    Acc.

ask(Filter, Stanza) ->
    Ref = monitor(process, Filter),
    Filter ! {self(), Ref, element(1, Stanza)},
    receive
        {Ref, Answer} -> demonitor(Ref, [flush]), Answer;
        {'DOWN', Ref, process, _, _} -> ok
    end.

%% @private
filter() ->
    receive
        {From, Ref, _} ->
            work(erlang:monotonic_time(microsecond) + ?WORK),
            From ! {Ref, ok},
            filter()
    end.

%% Keeps a processor busy until then.
work(Until) ->
    case erlang:monotonic_time(microsecond) >= Until of
        true -> ok;
        false -> work(Until)
    end.
