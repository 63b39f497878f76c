%%% @doc Publishes and consumes within a RabbitMQ server's own VM, in spans.
%%%
%%% Connections are direct ones, which are processes of the server: all that happens
%%% to a message happens in one VM. Two spans tell of each:
%%%
%%%   publish    from publishing it until the server has confirmed it, in the publisher
%%%   delivery   from publishing it until its consumer is done with it: started by the
%%%              publisher, ended by the consumer, which gets it in the message
%%%
%%% Each queue has a publisher, which waits for each confirmation, and a consumer,
%%% which is sent as much as there is. The scenarios:
%%%
%%%   plain           four queues, and nothing that is slow: messages are acknowledged as
%%%                   they are delivered, so none has to be written
%%%   slow-consumer   one queue; its messages come in bursts, of a second's messages each,
%%%                   and the consumer works for 0.4 s on each burst
%%%   disk            one queue; a message is as large as the queue writes by itself, and
%%%                   the consumer acknowledges it only when it is confirmed: so each has
%%%                   to be written to the disk, and is confirmed when that is done.
%%%                   Somebody else keeps the disk busy
%%%
%%% It measures the same by itself, and prints it.
-module(rabbitmq_spans).

-export([run/4]).

-include_lib("amqp_client/include/amqp_client.hrl").

-define(PATIENCE, 60). % seconds until a message has to be confirmed

-record(scenario, {
    names,            % registered, of consumers: one a queue
    no_ack = true,    % messages are acknowledged by being delivered
    padding = 100,    % bytes
    burst = false,    % a second's messages at once
    work = 0          % native time for each message
}).

-record(done, {
    publish = [], delivery = [], work = [], % native times
    waiting = [],                           % messages in the mailbox, at each that is taken
    last = 0                                % when the last one was done with
}).

%% @doc Runs a scenario: "20s" long or so many messages, so many a second or, with
%% "0", as many as it can. Tokens says whether the publisher sets a seq_trace token
%% for each message. It ends with the node from which it is called.
-spec run(Scenario :: string(), Amount :: string(), Rate :: string(), Tokens :: boolean()) -> ok.
run(Name, Amount, Rate, Tokens) ->
    {Until, Interval, Scenario} = arguments(Name, Amount, Rate),
    ok = application:set_env(amqp_client, gen_server_call_timeout, 130_000), % else it warns that it has to be
    {ok, _} = application:ensure_all_started(amqp_client),
    true = erlang:monitor_node(node(group_leader()), true),
    Self = self(),
    Pairs = [spawn_link(fun() -> pair(Self, Consumer, Scenario, Tokens) end) || Consumer <- Scenario#scenario.names],
    [await(ready, P) || P <- Pairs],
    Start = erlang:monotonic_time(),
    [P ! {publish, Until, Interval} || P <- Pairs],
    report(Start, Tokens, [await(done, P) || P <- Pairs]).

arguments(Name, Amount, Rate) ->
    case scenario(Name, Rate) of
        #scenario{names = Names} = Scenario ->
            case {rabbitmq_figures:until(Amount, length(Names)), rabbitmq_figures:interval(Rate, length(Names))} of
                {{ok, Until}, {ok, Interval}} -> {Until, Interval, Scenario};
                {error, _} -> exit("neither a number of seconds, like 20s, nor one of messages: " ++ Amount);
                {_, error} -> exit("not a number of messages a second: " ++ Rate)
            end;
        unknown ->
            exit("neither plain, slow-consumer nor disk: " ++ Name)
    end.

scenario("plain", _) ->
    #scenario{names = [consumer_1, consumer_2, consumer_3, consumer_4]};
scenario("slow-consumer", Rate) ->
    case rabbitmq_figures:interval(Rate, 1) of
        {ok, Interval} when Interval > 0 -> #scenario{names = [slow_consumer], burst = true, work = Interval * 4 div 10};
        _ -> exit("bursts need a number of messages a second: " ++ Rate)
    end;
scenario("disk", _) ->
    %% Up to 4096 bytes, the message with its properties is written by the queue.
    #scenario{names = [disk_consumer], no_ack = false, padding = 3500};
scenario(_, _) ->
    unknown.

await(What, From) ->
    receive
        {What, From, Result} -> Result;
        {nodedown, _} -> exit(shutdown)
    end.

report(Start, Tokens, All) ->
    Of = fun(Field) -> lists:append([element(Field, D) || D <- All]) end,
    Messages = length(Of(#done.delivery)),
    Seconds = erlang:convert_time_unit(lists:max([D#done.last || D <- All]) - Start, native, microsecond) / 1.0e6,
    Waiting = list_to_tuple(lists:sort(Of(#done.waiting))),
    io:format("~b messages in ~.1f s~s~n", [Messages, Seconds, [", with seq_trace tokens" || Tokens]]),
    io:format("publish to confirmation: ~s~n", [rabbitmq_figures:quantiles(Of(#done.publish))]),
    io:format("publish to done:         ~s~n", [rabbitmq_figures:quantiles(Of(#done.delivery))]),
    io:format("consumer's own work:     ~s~n", [rabbitmq_figures:quantiles(Of(#done.work))]),
    io:format("messages in its mailbox: half of the time up to ~b, at most ~b~n",
              [element((tuple_size(Waiting) + 1) div 2, Waiting), element(tuple_size(Waiting), Waiting)]),
    io:format("throughput: ~b messages/s~n", [round(Messages / Seconds)]).

%% One queue, with a publisher, which is this process, and a consumer.
pair(Parent, Name, Scenario, Tokens) ->
    Queue = iolist_to_binary(["beamscope.", atom_to_list(Name)]),
    {Connection, Channel} = open(),
    #'queue.declare_ok'{} = amqp_channel:call(Channel, #'queue.declare'{queue = Queue, durable = true}),
    #'queue.purge_ok'{} = amqp_channel:call(Channel, #'queue.purge'{queue = Queue}),
    #'confirm.select_ok'{} = amqp_channel:call(Channel, #'confirm.select'{}),
    Consumer = consumer(Name, Queue, Scenario),
    Parent ! {ready, self(), ok},
    {Until, Interval} = receive {publish, U, I} -> {U, I} end,
    Start = erlang:monotonic_time(),
    Publish = fun(Sent) ->
        wait(Start + due(Scenario, Interval, Sent)),
        publish(Channel, Queue, Scenario#scenario.padding, Tokens)
    end,
    {Count, Delays} = repeat(Publish, fun(Sent) -> rabbitmq_figures:over(Until, Start, Sent) end, 0, []),
    Consumer ! {published, Count},
    Done = receive {consumed, Consumer, D} -> D end,
    #'queue.delete_ok'{} = amqp_channel:call(Channel, #'queue.delete'{queue = Queue}),
    close(Connection),
    Parent ! {done, self(), Done#done{publish = Delays}}.

open() ->
    {ok, Connection} = amqp_connection:start(#amqp_params_direct{}),
    true = link(Connection),
    {ok, Channel} = amqp_connection:open_channel(Connection),
    {Connection, Channel}.

close(Connection) ->
    true = unlink(Connection),
    ok = amqp_connection:close(Connection).

repeat(Publish, Over, Sent, Delays) ->
    case Over(Sent) of
        true -> {Sent, Delays};
        false -> repeat(Publish, Over, Sent + 1, [Publish(Sent) | Delays])
    end.

%% When a message is due, since the start.
due(#scenario{burst = true}, Interval, Sent) ->
    Second = erlang:convert_time_unit(1, second, native),
    Sent * Interval div Second * Second;
due(#scenario{burst = false}, Interval, Sent) ->
    Sent * Interval.

wait(Due) ->
    Early = erlang:convert_time_unit(Due - erlang:monotonic_time(), native, millisecond),
    receive after max(0, Early) -> ok end.

%% Publishes one message, and returns the time until it was confirmed.
publish(Channel, Queue, Padding, Tokens) ->
    Now = erlang:monotonic_time(),
    {Ctx, Span} = beamscope:start_span(<<"delivery">>),
    beamscope:with_span(<<"publish">>, fun() ->
        Message = #amqp_msg{props = #'P_basic'{delivery_mode = 2},
                            payload = term_to_binary({Ctx, Span, Now, <<0:(Padding * 8)>>})},
        ok = amqp_channel:cast(Channel, #'basic.publish'{routing_key = Queue}, Message),
        true = amqp_channel:wait_for_confirms(Channel, ?PATIENCE)
    end, #{seq_trace => Tokens}),
    erlang:monotonic_time() - Now.

%% Starts a process that consumes, and returns when it does.
consumer(Name, Queue, #scenario{no_ack = NoAck, work = Work}) ->
    Parent = self(),
    Pid = spawn_link(fun() ->
        true = register(Name, self()),
        {Connection, Channel} = open(),
        #'basic.consume_ok'{} =
            amqp_channel:subscribe(Channel, #'basic.consume'{queue = Queue, no_ack = NoAck}, self()),
        receive #'basic.consume_ok'{} -> ok end,
        Parent ! {consuming, self()},
        Acknowledge = case NoAck of
            true -> fun(_) -> ok end;
            false -> fun(Tag) -> amqp_channel:cast(Channel, #'basic.ack'{delivery_tag = Tag}) end
        end,
        Done = consume(Acknowledge, Work, 0, infinity, #done{}),
        close(Connection),
        Parent ! {consumed, self(), Done}
    end),
    receive {consuming, Pid} -> Pid end.

%% Consumes until it has had as many messages as were published, which it is told
%% when they have been; an atom is greater than any number.
consume(_, _, N, Count, Done) when N >= Count ->
    Done;
consume(Acknowledge, Work, N, Count, Done) ->
    receive
        {#'basic.deliver'{delivery_tag = Tag}, #amqp_msg{payload = Payload}} ->
            From = erlang:monotonic_time(),
            {Ctx, Span, Published, _} = binary_to_term(Payload),
            work(From + Work),
            beamscope:end_span(Ctx, Span),
            Now = erlang:monotonic_time(),
            ok = Acknowledge(Tag),
            {message_queue_len, Waiting} = process_info(self(), message_queue_len),
            #done{delivery = Delivery, work = Works, waiting = Waitings} = Done,
            consume(Acknowledge, Work, N + 1, Count,
                    Done#done{delivery = [Now - Published | Delivery], work = [Now - From | Works],
                              waiting = [Waiting | Waitings], last = Now});
        {published, Published} ->
            consume(Acknowledge, Work, N, Published, Done)
    end.

%% Keeps a processor busy until then.
work(Until) ->
    case erlang:monotonic_time() >= Until of
        true -> ok;
        false -> work(Until)
    end.
