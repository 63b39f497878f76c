#!/usr/bin/env escript
%% Has clients of an ejabberd send messages to each other, and prints the throughput and the delays
%% that the clients measured.
%%
%%   ejabberd_load.escript PORT 20s|MESSAGES [MESSAGES A SECOND]
%%
%% The users user1@localhost to user8@localhost, whose password is "secret", log in over TLS. Each odd one sends chat
%% messages to the next one. A sender waits while 20 of its messages are not received.
-mode(compile).

-define(PAIRS, 4).
-define(WINDOW, 20).
-define(PATIENCE, 10_000). % ms until the server has to answer

-record(sender, {
    socket, to,
    start, until, interval,
    sent = 0, received = 0, % messages
    delays = []             % native, of those that are received
}).

main([Port, Amount]) -> main([Port, Amount, "0"]);
main([Port, Amount, Rate]) ->
    Until = valid(rabbitmq_figures:until(Amount, ?PAIRS), Amount ++ ": neither a number of seconds, like 20s, nor one of messages"),
    Interval = valid(rabbitmq_figures:interval(Rate, ?PAIRS), Rate ++ ": not a number of messages a second"),
    {ok, _} = application:ensure_all_started(ssl),
    logger:set_primary_config(level, error), % else ssl warns that it does not verify the server
    Self = self(),
    Pairs = [spawn_link(fun() -> pair(Self, list_to_integer(Port), N) end) || N <- lists:seq(1, ?PAIRS)],
    [receive {ready, P} -> ok end || P <- Pairs],
    Start = erlang:monotonic_time(),
    [P ! {send, Until, Interval} || P <- Pairs],
    Delays = lists:append([receive {done, P, D} -> D end || P <- Pairs]),
    Seconds = erlang:convert_time_unit(erlang:monotonic_time() - Start, native, microsecond) / 1.0e6,
    io:format("~b messages in ~.1f s~n", [length(Delays), Seconds]),
    io:format("sent to received: ~s~n", [rabbitmq_figures:quantiles(Delays)]),
    io:format("throughput: ~b messages/s~n", [round(length(Delays) / Seconds)]);
main(_) ->
    io:format(standard_error, "usage: ejabberd_load.escript PORT 20s|MESSAGES [MESSAGES A SECOND]~n", []),
    halt(2).

valid({ok, Value}, _) -> Value;
valid(error, Why) ->
    io:format(standard_error, "~s~n", [Why]),
    halt(2).

%% Two users: this process is the one that sends.
pair(Parent, Port, N) ->
    [From, To] = [iolist_to_binary(["user", integer_to_binary(2 * N - I)]) || I <- [1, 0]],
    Self = self(),
    Receiver = spawn_link(fun() ->
        Socket = login(Port, To),
        Self ! {received, self(), login},
        inform(Self, Socket, <<>>)
    end),
    Socket = login(Port, From),
    receive {received, Receiver, login} -> ok end,
    Parent ! {ready, self()},
    receive {send, Until, Interval} -> ok end,
    Delays = send(#sender{socket = Socket, to = To, start = erlang:monotonic_time(), until = Until, interval = Interval}),
    ok = ssl:send(Socket, <<"</stream:stream>">>),
    Parent ! {done, self(), Delays}.

%% Sends messages until the end, and returns the delays when all are received.
send(#sender{sent = Sent, received = Received} = S) ->
    Early = erlang:convert_time_unit(S#sender.start + Sent * S#sender.interval - erlang:monotonic_time(), native, millisecond),
    case rabbitmq_figures:over(S#sender.until, S#sender.start, Sent) of
        true when Sent =:= Received -> S#sender.delays;
        Over when Over; Sent - Received >= ?WINDOW -> send(await(S, ?PATIENCE));
        false when Early > 0 -> send(await(S, Early));
        false ->
            Now = integer_to_binary(erlang:monotonic_time()),
            ok = ssl:send(S#sender.socket,
                          ["<message type='chat' to='", S#sender.to, "@localhost/load'><body>", Now, "</body></message>"]),
            send(S#sender{sent = Sent + 1})
    end.

await(#sender{received = Received, delays = Delays} = S, Timeout) ->
    receive
        {delay, Delay} -> S#sender{received = Received + 1, delays = [Delay | Delays]}
    after Timeout ->
        Timeout < ?PATIENCE orelse exit({not_received, S#sender.sent - Received}),
        S
    end.

%% Receives messages, whose text is the time at which they were sent.
inform(Sender, Socket, Data) ->
    case binary:split(Data, <<"</body>">>) of
        [Message, Rest] ->
            [_, Sent] = binary:split(Message, <<"<body>">>),
            Sender ! {delay, erlang:monotonic_time() - binary_to_integer(Sent)},
            inform(Sender, Socket, Rest);
        [_] ->
            {ok, More} = ssl:recv(Socket, 0),
            inform(Sender, Socket, <<Data/binary, More/binary>>)
    end.

%% Opens a session of a user, over TLS.
login(Port, User) ->
    {ok, Plain} = gen_tcp:connect("127.0.0.1", Port, [binary, {active, false}, {nodelay, true}]),
    ask(gen_tcp, Plain, header(), <<"</stream:features>">>),
    ask(gen_tcp, Plain, <<"<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>">>, <<"<proceed">>),
    {ok, Socket} = ssl:connect(Plain, [{verify, verify_none}]),
    ask(ssl, Socket, header(), <<"</stream:features>">>),
    Secret = base64:encode(<<0, User/binary, 0, "secret">>),
    ask(ssl, Socket, ["<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>", Secret, "</auth>"], <<"<success">>),
    ask(ssl, Socket, header(), <<"</stream:features>">>),
    ask(ssl, Socket, <<"<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>"
                       "<resource>load</resource></bind></iq>">>, <<"</iq>">>),
    ask(ssl, Socket, <<"<presence/>">>, <<"<presence">>),
    Socket.

header() ->
    <<"<stream:stream to='localhost' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>">>.

%% Sends something, and waits until the answer contains a text.
ask(Module, Socket, Text, Answer) ->
    ok = Module:send(Socket, Text),
    answer(Module, Socket, Answer, <<>>).

answer(Module, Socket, Answer, Data) ->
    case binary:match(Data, Answer) of
        nomatch ->
            case Module:recv(Socket, 0, ?PATIENCE) of
                {ok, More} -> answer(Module, Socket, Answer, <<Data/binary, More/binary>>);
                {error, Why} -> exit({Why, {expected, Answer}, {got, Data}})
            end;
        _ -> ok
    end.
