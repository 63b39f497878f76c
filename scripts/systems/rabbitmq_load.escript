#!/usr/bin/env escript
%% Publishes to a RabbitMQ and consumes from it, on several queues at once, and
%% prints the throughput and the delays that it saw itself.
%%
%%   rabbitmq_load.escript PORT 20s|MESSAGES [MESSAGES A SECOND]
%%
%% Messages are persistent, confirmed by the broker and acknowledged by the
%% consumer, each for itself. What is under way of a queue is bounded, so that
%% delays are the broker's and not those of an ever longer queue. Without a rate
%% messages are published as fast as that allows.
-mode(compile).
-include_lib("amqp_client/include/amqp_client.hrl").

-define(QUEUES, 4).
-define(UNCONFIRMED, 100).
-define(PREFETCH, 100).
-define(PADDING, <<0:(100 * 8)>>).

-record(publisher, {
    channel, queue,
    start, until, interval,
    sent = 0,            % messages
    open = queue:new(),  % {number, time} of those not yet confirmed
    delays = []          % from publishing to confirmation
}).

main([Port, Amount]) -> main([Port, Amount, "0"]);
main([Port, Amount, Rate]) ->
    Until = valid(rabbitmq_figures:until(Amount, ?QUEUES), Amount ++ ": neither a number of seconds, like 20s, nor one of messages"),
    Interval = valid(rabbitmq_figures:interval(Rate, ?QUEUES), Rate ++ ": not a number of messages a second"),
    {ok, _} = application:ensure_all_started(amqp_client),
    Params = #amqp_params_network{host = "127.0.0.1", port = list_to_integer(Port)},
    Self = self(),
    Pairs = [spawn_link(fun() -> pair(Self, Params, N) end) || N <- lists:seq(1, ?QUEUES)],
    [receive {ready, P} -> ok end || P <- Pairs],
    Start = erlang:monotonic_time(),
    [P ! {publish, Until, Interval} || P <- Pairs],
    Results = [receive {done, P, R} -> R end || P <- Pairs],
    report(Start, Results);
main(_) ->
    io:format(standard_error, "usage: rabbitmq_load.escript PORT 20s|MESSAGES [MESSAGES A SECOND]~n", []),
    halt(2).

valid({ok, Value}, _) -> Value;
valid(error, Why) ->
    io:format(standard_error, "~s~n", [Why]),
    halt(2).

report(Start, Results) ->
    End = lists:max([E || {E, _, _} <- Results]),
    Delivered = lists:append([D || {_, D, _} <- Results]),
    Confirmed = lists:append([C || {_, _, C} <- Results]),
    Seconds = erlang:convert_time_unit(End - Start, native, microsecond) / 1.0e6,
    io:format("~b messages in ~.1f s~n", [length(Delivered), Seconds]),
    io:format("publish to confirmation: ~s~n", [rabbitmq_figures:quantiles(Confirmed)]),
    io:format("publish to delivery:     ~s~n", [rabbitmq_figures:quantiles(Delivered)]),
    io:format("throughput: ~b messages/s~n", [round(length(Delivered) / Seconds)]).

%% One queue, with a connection for its publisher and one for its consumer.
pair(Parent, Params, N) ->
    Queue = iolist_to_binary(io_lib:format("beamscope.~b", [N])),
    Consumer = consumer(Params, Queue),
    {Connection, Channel} = open(Params),
    #'confirm.select_ok'{} = amqp_channel:call(Channel, #'confirm.select'{}),
    ok = amqp_channel:register_confirm_handler(Channel, self()),
    Parent ! {ready, self()},
    Publisher = receive
        {publish, Until, Interval} ->
            #publisher{channel = Channel, queue = Queue, start = erlang:monotonic_time(), until = Until, interval = Interval}
    end,
    #publisher{sent = Count, delays = Confirmed} = publish(Publisher),
    Consumer ! {published, Count},
    {End, Delivered} = receive {consumed, Consumer, E, D} -> {E, D} end,
    #'queue.delete_ok'{} = amqp_channel:call(Channel, #'queue.delete'{queue = Queue}),
    close(Connection),
    Parent ! {done, self(), {End, Delivered, Confirmed}}.

%% If the server stops, this process ends too, and the whole program with it.
open(Params) ->
    {ok, Connection} = amqp_connection:start(Params),
    true = link(Connection),
    {ok, Channel} = amqp_connection:open_channel(Connection),
    {Connection, Channel}.

close(Connection) ->
    true = unlink(Connection),
    ok = amqp_connection:close(Connection).

publish(P) ->
    Now = erlang:monotonic_time(),
    case next(P, Now) of
        done -> P;
        send -> publish(send(P, Now));
        {wait, Milliseconds} -> publish(confirmed(P, Milliseconds))
    end.

next(#publisher{start = Start, sent = Sent, interval = Interval} = P, Now) ->
    Early = Start + Sent * Interval - Now,
    case {rabbitmq_figures:over(P#publisher.until, Start, Sent), queue:len(P#publisher.open)} of
        {true, 0} -> done;
        {true, _} -> {wait, infinity};
        {false, ?UNCONFIRMED} -> {wait, infinity};
        {false, _} when Early =< 0 -> send;
        {false, _} -> {wait, erlang:convert_time_unit(Early, native, millisecond) + 1}
    end.

send(#publisher{channel = Channel, queue = Queue, sent = Sent, open = Open} = P, Now) ->
    Message = #amqp_msg{props = #'P_basic'{delivery_mode = 2}, payload = <<Now:64/signed, ?PADDING/binary>>},
    ok = amqp_channel:cast(Channel, #'basic.publish'{routing_key = Queue}, Message),
    P#publisher{sent = Sent + 1, open = queue:in({Sent + 1, Now}, Open)}.

%% A confirmation may be for all messages up to one.
confirmed(#publisher{open = Open, delays = Delays} = P, Timeout) ->
    receive
        #'basic.ack'{delivery_tag = Tag, multiple = Multiple} ->
            Now = erlang:monotonic_time(),
            {Confirmed, Rest} = lists:partition(
                fun({N, _}) -> N =:= Tag orelse Multiple andalso N < Tag end, queue:to_list(Open)),
            P#publisher{open = queue:from_list(Rest), delays = [Now - Sent || {_, Sent} <- Confirmed] ++ Delays}
    after Timeout -> P
    end.

%% Starts a process that consumes, and returns when it does.
consumer(Params, Queue) ->
    Parent = self(),
    Pid = spawn_link(fun() ->
        {Connection, Channel} = open(Params),
        #'queue.declare_ok'{} = amqp_channel:call(Channel, #'queue.declare'{queue = Queue, durable = true}),
        #'queue.purge_ok'{} = amqp_channel:call(Channel, #'queue.purge'{queue = Queue}),
        #'basic.qos_ok'{} = amqp_channel:call(Channel, #'basic.qos'{prefetch_count = ?PREFETCH}),
        #'basic.consume_ok'{consumer_tag = Tag} =
            amqp_channel:subscribe(Channel, #'basic.consume'{queue = Queue}, self()),
        receive #'basic.consume_ok'{} -> ok end,
        Parent ! {consuming, self()},
        Delays = consume(Channel, 0, infinity, []),
        End = erlang:monotonic_time(),
        #'basic.cancel_ok'{} = amqp_channel:call(Channel, #'basic.cancel'{consumer_tag = Tag}),
        close(Connection),
        Parent ! {consumed, self(), End, Delays}
    end),
    receive {consuming, Pid} -> Pid end.

%% Consumes until it has had as many messages as were published, which it is told
%% when they have been; an atom is greater than any number.
consume(_, N, Count, Delays) when N >= Count ->
    Delays;
consume(Channel, N, Count, Delays) ->
    receive
        {#'basic.deliver'{delivery_tag = Tag}, #amqp_msg{payload = <<Sent:64/signed, _/binary>>}} ->
            Delay = erlang:monotonic_time() - Sent,
            ok = amqp_channel:cast(Channel, #'basic.ack'{delivery_tag = Tag}),
            consume(Channel, N + 1, Count, [Delay | Delays]);
        {published, Published} ->
            consume(Channel, N, Published, Delays)
    end.
