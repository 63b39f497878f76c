#!/usr/bin/env escript
%% Publishes to a RabbitMQ and consumes from it, on several queues at once, and
%% prints the throughput and the delays that it saw itself.
%%
%%   rabbitmq_load.escript PORT 20s|MESSAGES
%%
%% Messages are persistent, confirmed by the broker and acknowledged by the
%% consumer, each for itself. What is under way of a queue is bounded, so that
%% delays are the broker's and not those of an ever longer queue.
-mode(compile).
-include_lib("amqp_client/include/amqp_client.hrl").

-define(QUEUES, 4).
-define(UNCONFIRMED, 100).
-define(PREFETCH, 100).
-define(PADDING, <<0:(100 * 8)>>).

main([Port, Amount]) ->
    {ok, _} = application:ensure_all_started(amqp_client),
    logger:set_primary_config(level, error),
    Params = #amqp_params_network{host = "127.0.0.1", port = list_to_integer(Port)},
    Parent = self(),
    Pairs = [spawn_link(fun() -> pair(Parent, Params, N) end) || N <- lists:seq(1, ?QUEUES)],
    [receive {ready, P} -> ok end || P <- Pairs],
    Start = erlang:monotonic_time(),
    Until = until(Amount, Start),
    [P ! {go, Until} || P <- Pairs],
    Results = [receive {done, P, R} -> R end || P <- Pairs],
    End = lists:max([E || {E, _, _} <- Results]),
    Seconds = erlang:convert_time_unit(End - Start, native, microsecond) / 1.0e6,
    Delivered = lists:sort(lists:append([D || {_, D, _} <- Results])),
    Confirmed = lists:sort(lists:append([C || {_, _, C} <- Results])),
    io:format("~b messages in ~.1f s~n", [length(Delivered), Seconds]),
    io:format("publish to confirmation: ~s~n", [quantiles(Confirmed)]),
    io:format("publish to delivery:     ~s~n", [quantiles(Delivered)]),
    io:format("throughput: ~b messages/s~n", [round(length(Delivered) / Seconds)]);
main(_) ->
    io:format(standard_error, "usage: rabbitmq_load.escript PORT 20s|MESSAGES~n", []),
    halt(2).

%% When a publisher ends: at a time, or after its share of the messages.
until(Amount, Start) ->
    case string:to_integer(Amount) of
        {N, "s"} when N > 0 -> {time, Start + erlang:convert_time_unit(N, second, native)};
        {N, ""} when N > 0 -> {count, (N + ?QUEUES - 1) div ?QUEUES};
        _ ->
            io:format(standard_error, "~s: not a number of seconds like 20s, nor a number of messages~n", [Amount]),
            halt(2)
    end.

%% One queue, with a connection for its publisher and one for its consumer.
pair(Parent, Params, N) ->
    Queue = iolist_to_binary(io_lib:format("beamscope.~b", [N])),
    Consumer = consumer(Params, Queue),
    Channel = channel(Params),
    #'confirm.select_ok'{} = amqp_channel:call(Channel, #'confirm.select'{}),
    ok = amqp_channel:register_confirm_handler(Channel, self()),
    Parent ! {ready, self()},
    receive {go, Until} -> ok end,
    {Count, Confirmed} = publish(Channel, Queue, Until, 0, queue:new(), []),
    Consumer ! {published, Count, self()},
    receive {consumed, End, Delivered} -> ok end,
    #'queue.delete_ok'{} = amqp_channel:call(Channel, #'queue.delete'{queue = Queue}),
    Parent ! {done, self(), {End, Delivered, Confirmed}}.

channel(Params) ->
    {ok, Connection} = amqp_connection:start(Params),
    {ok, Channel} = amqp_connection:open_channel(Connection),
    Channel.

publish(Channel, Queue, Until, N, Open, Confirmed) ->
    case {over(Until, N), queue:len(Open)} of
        {true, 0} ->
            {N, Confirmed};
        {false, Len} when Len < ?UNCONFIRMED ->
            Now = erlang:monotonic_time(),
            Message = #amqp_msg{props = #'P_basic'{delivery_mode = 2}, payload = <<Now:64/signed, ?PADDING/binary>>},
            ok = amqp_channel:cast(Channel, #'basic.publish'{routing_key = Queue}, Message),
            publish(Channel, Queue, Until, N + 1, queue:in({N + 1, Now}, Open), Confirmed);
        _ ->
            {Rest, More} = confirmed(Open, Confirmed),
            publish(Channel, Queue, Until, N, Rest, More)
    end.

over({time, T}, _) -> erlang:monotonic_time() >= T;
over({count, C}, N) -> N >= C.

confirmed(Open, Confirmed) ->
    receive
        #'basic.ack'{delivery_tag = Tag, multiple = Multiple} ->
            Now = erlang:monotonic_time(),
            {Done, Rest} = lists:partition(
                fun({N, _}) -> N =:= Tag orelse Multiple andalso N < Tag end, queue:to_list(Open)),
            {queue:from_list(Rest), [Now - T || {_, T} <- Done] ++ Confirmed}
    end.

%% Starts a process that consumes, and returns when it does.
consumer(Params, Queue) ->
    Self = self(),
    Pid = spawn_link(fun() ->
        Channel = channel(Params),
        #'queue.declare_ok'{} = amqp_channel:call(Channel, #'queue.declare'{queue = Queue, durable = true}),
        #'queue.purge_ok'{} = amqp_channel:call(Channel, #'queue.purge'{queue = Queue}),
        #'basic.qos_ok'{} = amqp_channel:call(Channel, #'basic.qos'{prefetch_count = ?PREFETCH}),
        #'basic.consume_ok'{} = amqp_channel:subscribe(Channel, #'basic.consume'{queue = Queue}, self()),
        receive #'basic.consume_ok'{} -> ok end,
        Self ! {consuming, self()},
        consume(Channel, 0, infinity, undefined, [])
    end),
    receive {consuming, Pid} -> Pid end.

%% An atom is greater than any number.
consume(_, N, Count, Publisher, Delays) when N >= Count ->
    Publisher ! {consumed, erlang:monotonic_time(), Delays};
consume(Channel, N, Count, Publisher, Delays) ->
    receive
        {#'basic.deliver'{delivery_tag = Tag}, #amqp_msg{payload = <<Sent:64/signed, _/binary>>}} ->
            Delay = erlang:monotonic_time() - Sent,
            ok = amqp_channel:cast(Channel, #'basic.ack'{delivery_tag = Tag}),
            consume(Channel, N + 1, Count, Publisher, [Delay | Delays]);
        {published, M, From} ->
            consume(Channel, N, M, From, Delays)
    end.

quantiles([]) -> "nothing";
quantiles(Sorted) ->
    Delays = list_to_tuple(Sorted),
    Of = fun(Q) ->
        Delay = element(max(1, ceil(Q * tuple_size(Delays))), Delays),
        erlang:convert_time_unit(Delay, native, microsecond) / 1000
    end,
    io_lib:format("p50 ~.2fms  p99 ~.2fms  p99.9 ~.2fms", [Of(0.5), Of(0.99), Of(0.999)]).
