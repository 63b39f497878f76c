%%% @doc Known amounts of the VM's own activities, timed by the program. Tests compare the
%%% outcomes of the VM with these results.
%%%
%%% Times are nanoseconds of erlang:monotonic_time/1. Each function returns only numbers and
%%% pids, in the order of its type.
-module(vm_load).
-behaviour(gen_server).

-export([collections/1, small_collections/1, collections_of_function/1, garbage/1, equal_collections/1, large_heaps/1, busy/1, make_lists/0, turns/1, yields/1, exhaustions/1, lives/1, reads/2]).
-export([receivers/1, deliver/2, backlog/1, calls/1, dead_calls/1]).
-export([short_receivers/1, crowd/1, tell_crowd/1, junk/1]).
-export([flood/1, gather/1, abandoned/1]).
-export([congested_port/1, suspended_sender/1, let_go/1]).
-export([live/1]).
-export([init/1, handle_call/3, handle_cast/2]).

%% The default for sockets.
-define(HIGH_WATERMARK, 8192).

-type ns() :: integer().
-type span() :: {From :: ns(), To :: ns()}.
-type kind() :: send | named | to_self | cast | call_infinity | call_timeout | send_request
              | send_after | port | down | exit.

%%% Garbage collection

%% @doc Creates garbage in a traced process. Returns its collections as erlang:trace reports
%% them, and what statistics(garbage_collection) counts for the whole VM meanwhile.
-spec collections(Rounds :: pos_integer()) ->
          {pid(), {Collections :: integer(), Words :: integer()},
           [{Kind :: 1 | 2, From :: ns(), To :: ns(), Words :: integer()}]}.
collections(Rounds) ->
    Pid = prepared(fun() -> keep(Rounds, []) end),
    {Count, Words, _} = erlang:statistics(garbage_collection),
    {_, Trace} = traced(Pid, garbage_collection),
    {CountAfter, WordsAfter, _} = erlang:statistics(garbage_collection),
    {Pid, {CountAfter - Count, WordsAfter - Words}, pairs(Trace)}.

%% Keeps part of the created data, so that the old heap fills up too.
keep(0, Kept) ->
    true = erlang:garbage_collect(),
    length(Kept);
keep(N, Kept) ->
    _ = lists:sum(lists:seq(1, 2000)),
    keep(N - 1, [lists:seq(1, 1000) | Kept]).

%% @doc Collects a traced process that has little garbage and no live data. Returns how long
%% the program waited each time.
-spec small_collections(N :: pos_integer()) -> [span()].
small_collections(N) ->
    Pid = prepared(fun() -> [begin
                                 _ = lists:sum(lists:seq(1, 2000)),
                                 timed(fun erlang:garbage_collect/0)
                             end || _ <- lists:seq(1, N)]
                   end),
    {Spans, _} = traced(Pid, garbage_collection),
    Spans.

%% @doc Has a process that was spawned with lists:foreach/2 collect its garbage N times, half a
%% second after its spawn, and live for another half second: time to find out its function.
%% Returns the number of its collections by a trace.
-spec collections_of_function(N :: pos_integer()) -> non_neg_integer().
collections_of_function(N) ->
    Work = fun(wait) -> receive go -> ok end;
              (collect) -> erlang:garbage_collect()
           end,
    Pid = spawn(lists, foreach, [Work, [wait | lists:duplicate(N, collect)] ++ [wait]]),
    Monitor = monitor(process, Pid),
    receive after 500 -> ok end,
    1 = erlang:trace(Pid, true, [garbage_collection, monotonic_timestamp]),
    Pid ! go,
    receive after 500 -> ok end,
    Pid ! go,
    receive {'DOWN', Monitor, process, Pid, normal} -> ok end,
    Ref = erlang:trace_delivered(Pid),
    receive {trace_delivered, Pid, Ref} -> ok end,
    length(pairs(trace_of(Pid))).

pairs([{gc_minor_start, _, From}, {gc_minor_end, Info, To} | Rest]) ->
    [{1, From, To, proplists:get_value(wordsize, Info)} | pairs(Rest)];
pairs([{gc_major_start, _, From}, {gc_major_end, Info, To} | Rest]) ->
    [{2, From, To, proplists:get_value(wordsize, Info)} | pairs(Rest)];
pairs([]) ->
    [].

%% @doc Has a process create garbage, as collections/1 does, without a trace.
-spec garbage(Rounds :: pos_integer()) -> ok.
garbage(Rounds) ->
    {Pid, Ref} = spawn_monitor(fun() -> keep(Rounds, []) end),
    receive {'DOWN', Ref, process, Pid, normal} -> ok end.

%% @doc Has a process collect the same garbage N times, each time with a major and a minor collection.
-spec equal_collections(N :: pos_integer()) -> ok.
equal_collections(N) ->
    Collect = fun(Type) ->
                      _ = lists:sum(lists:seq(1, 2000)),
                      true = erlang:garbage_collect(self(), [{type, Type}])
              end,
    {Pid, Ref} = spawn_monitor(fun() -> repeat(N, fun() -> Collect(major), Collect(minor) end) end),
    receive {'DOWN', Ref, process, Pid, normal} -> ok end.

%% @doc Has N processes exceed the limit of their heap in a collection, for which the VM kills them.
-spec large_heaps(N :: pos_integer()) -> ok.
large_heaps(N) ->
    Limit = #{size => 10000, kill => true, error_logger => false},
    repeat(N, fun() ->
                      {Pid, Ref} = spawn_opt(fun() -> keep(1000, []) end, [monitor, {max_heap_size, Limit}]),
                      receive {'DOWN', Ref, process, Pid, killed} -> ok end
              end).

%%% Running

%% @doc Keeps processes busy for some time. Returns the total active time of the ordinary
%% schedulers, and the elapsed time.
-spec busy(#{procs := pos_integer(), for_ms := pos_integer(), cells := non_neg_integer()}) ->
          {Active :: ns(), Elapsed :: ns()}.
busy(#{procs := Procs, for_ms := Ms, cells := Cells}) ->
    _ = erlang:system_flag(scheduler_wall_time, true),
    Before = wall_times(),
    From = now_ns(),
    Until = From + Ms * 1000000,
    Pids = [prepared(fun() -> work_until(Until, twice(Cells)) end) || _ <- lists:seq(1, Procs)],
    _ = [Pid ! go || Pid <- Pids],
    _ = [receive {Pid, _} -> ok end || Pid <- Pids],
    After = wall_times(),
    Elapsed = now_ns() - From,
    _ = [Pid ! leave || Pid <- Pids],
    {Active, Total} = lists:unzip([{A2 - A1, T2 - T1} || {{I, A1, T1}, {I, A2, T2}} <- lists:zip(Before, After)]),
    %% The unit is not documented: the total of a scheduler is what has elapsed.
    {lists:sum(Active) * Elapsed * length(Total) div lists:sum(Total), Elapsed}.

wall_times() ->
    Ordinary = erlang:system_info(schedulers),
    [S || {I, _, _} = S <- lists:sort(erlang:statistics(scheduler_wall_time)), I =< Ordinary].

work_until(Until, Lists) ->
    case now_ns() < Until of
        true -> work(10, Lists), work_until(Until, Lists);
        false -> ok
    end.

%% A comparison takes a time proportional to the length of the lists. It counts as no reduction
%% and creates no garbage.
work(0, _) -> ok;
work(N, {A, B} = Lists) ->
    true = A =:= B,
    work(N - 1, Lists).

twice(Cells) -> {lists:seq(1, Cells), lists:seq(1, Cells)}.

%% @doc Runs a process beside others that are always busy. Returns from a trace when it is
%% scheduled in (1) and out (2).
-spec turns(#{others := non_neg_integer(), rounds := pos_integer(), cells := non_neg_integer()}) ->
          {pid(), [{1 | 2, ns()}]}.
turns(#{others := N, rounds := Rounds, cells := Cells}) ->
    Others = [spawn(fun() -> work_until(infinity, twice(Cells)) end) || _ <- lists:seq(1, N)],
    Pid = prepared(fun() -> work(Rounds, twice(Cells)), erlang:yield() end),
    {_, Trace} = traced(Pid, running),
    _ = [exit(Other, kill) || Other <- Others],
    {Pid, [{case What of in -> 1; out -> 2 end, At} || {What, _, At} <- Trace]}.

%% @doc Has a traced process give way N times. Returns how often the trace has it scheduled in,
%% which is once for each slice after the one in which the process was spawned.
-spec yields(N :: pos_integer()) -> {pid(), In :: non_neg_integer()}.
yields(N) ->
    Pid = prepared(fun() -> repeat(N, fun erlang:yield/0) end),
    {_, Trace} = traced(Pid, running),
    {Pid, length([in || {in, _, _} <- Trace])}.

%% @doc Has a process use up its reductions N times. It gives way first: the scheduler may have taken
%% some of its reductions for its signals. It is not traced, because a trace takes some too.
-spec exhaustions(N :: pos_integer()) -> pid().
exhaustions(N) ->
    Pid = prepared(fun() -> erlang:yield(), repeat(N, fun() -> erlang:bump_reductions(4000) end) end),
    _ = finish(Pid),
    Pid.

%% @doc Makes lists of 1000 elements, and never returns.
-spec make_lists() -> no_return().
make_lists() ->
    _ = lists:seq(1, 1000),
    make_lists().

%%% Lives

%% @doc Spawns processes that live for the given times, and waits until all have ended.
-spec lives([Ms :: non_neg_integer()]) -> Count :: non_neg_integer().
lives(Times) ->
    Monitors = [spawn_monitor(?MODULE, live, [Ms]) || Ms <- Times],
    _ = [receive {'DOWN', Ref, process, Pid, normal} -> ok end || {Pid, Ref} <- Monitors],
    length(Monitors).

live(0) -> ok;
live(Ms) -> receive after Ms -> ok end.

%%% Files

%% @doc Reads information on a file again and again, and returns how long each call took.
-spec reads(file:filename(), N :: pos_integer()) -> {pid(), [span()]}.
reads(Name, N) ->
    Pid = prepared(fun() -> [timed(fun() -> {ok, _} = prim_file:read_file_info(Name) end) || _ <- lists:seq(1, N)] end),
    {Pid, finish(Pid)}.

%%% Messages

%% @doc Starts processes for deliver/2, one of each kind.
-spec receivers([kind()]) -> [pid()].
receivers(Kinds) ->
    [spawn(fun() -> receive {go, N, From} -> receive_of(Kind, N), From ! {self(), done} end, receive leave -> ok end end)
     || Kind <- Kinds].

%% @doc Makes these processes, one after the other, receive N messages of their kind each, in
%% addition to the message that starts them.
-spec deliver([pid()], N :: pos_integer()) -> ok.
deliver(Pids, N) ->
    lists:foreach(fun(Pid) -> Pid ! {go, N, self()}, receive {Pid, done} -> ok end end, Pids).

receive_of(send, N) ->
    Self = self(),
    spawn(fun() -> repeat(N, fun() -> Self ! message end) end),
    repeat(N, fun() -> receive message -> ok end end);
receive_of(named, N) ->
    true = register(?MODULE, self()),
    spawn(fun() -> repeat(N, fun() -> ?MODULE ! message end) end),
    repeat(N, fun() -> receive message -> ok end end),
    true = unregister(?MODULE);
receive_of(to_self, N) ->
    repeat(N, fun() -> self() ! message, receive message -> ok end end);
receive_of(cast, N) ->
    Self = self(),
    spawn(fun() -> repeat(N, fun() -> gen_server:cast(Self, message) end) end),
    repeat(N, fun() -> receive {'$gen_cast', message} -> ok end end);
receive_of(call_infinity, N) ->
    Server = server(),
    repeat(N, fun() -> ok = gen_server:call(Server, reply, infinity) end);
receive_of(call_timeout, N) ->
    Server = server(),
    repeat(N, fun() -> ok = gen_server:call(Server, reply, 60000) end);
receive_of(send_request, N) ->
    Server = server(),
    repeat(N, fun() -> {reply, ok} = gen_server:receive_response(gen_server:send_request(Server, reply), infinity) end);
receive_of(send_after, N) ->
    repeat(N, fun() -> erlang:send_after(0, self(), message), receive message -> ok end end);
receive_of(port, N) ->
    Port = open_port({spawn, "cat"}, [binary]),
    repeat(N, fun() -> true = port_command(Port, <<"message">>), receive {Port, {data, <<"message">>}} -> ok end end),
    true = port_close(Port);
receive_of(down, N) ->
    repeat(N, fun() -> {Pid, Ref} = spawn_monitor(fun() -> ok end), receive {'DOWN', Ref, process, Pid, _} -> ok end end);
receive_of(exit, N) ->
    process_flag(trap_exit, true),
    repeat(N, fun() -> Pid = spawn_link(fun() -> ok end), receive {'EXIT', Pid, _} -> ok end end).

%% @doc Sends messages to a process, which takes them some time later, in order or in reverse
%% order. Returns when the process had fetched all of them, and when each was sent and taken,
%% both in the order of sending.
-spec backlog(#{messages := pos_integer(), wait_ms := non_neg_integer(), order := in_order | reverse,
                label := non_neg_integer()}) -> {pid(), Fetched :: ns(), Sent :: [span()], Taken :: [span()]}.
backlog(#{messages := N, wait_ms := Ms, order := Order, label := Label}) ->
    Numbers = lists:seq(1, N),
    Pid = prepared(fun() ->
                           Result = take(Order, Numbers, Ms),
                           _ = seq_trace:set_token([]), % the token of the last message
                           Result
                   end),
    Pid ! go,
    Sent = finish(prepared(fun() -> send_all(Label, Pid, Numbers) end)),
    {Fetched, Taken} = receive {Pid, Result} -> Result end,
    {Pid, Fetched, Sent, [Span || {_, Span} <- lists:sort(Taken)]}.

%% Sends with a token, unless Label is 0.
send_all(Label, Pid, Numbers) ->
    _ = [seq_trace:set_token(label, Label) || Label =/= 0],
    Sent = [timed(fun() -> Pid ! {message, Number} end) || Number <- Numbers],
    _ = seq_trace:set_token([]),
    Sent.

%% Takes the last message before the wait: after that, all messages have been fetched.
take(reverse, Numbers, Ms) ->
    [Last | Others] = lists:reverse(Numbers),
    First = take_one(Last),
    Fetched = now_ns(),
    receive after Ms -> ok end,
    {Fetched, [First | [take_one(Number) || Number <- Others]]};
take(in_order, Numbers, Ms) ->
    receive after Ms -> ok end,
    Taken = [take_one(Number) || Number <- Numbers],
    {now_ns(), Taken}.

take_one(Number) -> {Number, timed(fun() -> receive {message, Number} -> ok end end)}.

%% @doc Starts processes, each of which gets three messages, takes the first and the last one,
%% and ends. Each round has the given number of processes, and a pause after them.
-spec short_receivers(#{rounds := pos_integer(), each := pos_integer(), pause_ms := non_neg_integer()}) -> ok.
short_receivers(#{rounds := Rounds, each := Each, pause_ms := Ms}) ->
    repeat(Rounds, fun() -> repeat(Each, fun short_receiver/0), receive after Ms -> ok end end).

short_receiver() ->
    {Pid, Ref} = spawn_monitor(fun() -> receive first -> receive last -> ok end end end),
    _ = [Pid ! Message || Message <- [first, left, last]],
    receive {'DOWN', Ref, process, Pid, normal} -> ok end.

%% @doc Starts additional processes for tell_crowd/1.
-spec crowd(N :: pos_integer()) -> ok.
crowd(N) ->
    New = [spawn(fun member/0) || _ <- lists:seq(1, N)],
    persistent_term:put(?MODULE, New ++ persistent_term:get(?MODULE, [])).

member() ->
    receive {From, Ref} -> From ! Ref, member() end.

%% @doc Sends messages to all processes of the crowd and waits for their answers. Repeats this
%% the given number of times, with a pause after each.
-spec tell_crowd(#{times := pos_integer(), pause_ms := non_neg_integer()}) -> ok.
tell_crowd(#{times := Times, pause_ms := Ms}) ->
    Crowd = persistent_term:get(?MODULE),
    repeat(Times, fun() ->
                          Ref = make_ref(),
                          _ = [Pid ! {self(), Ref} || Pid <- Crowd],
                          _ = [receive Ref -> ok end || _ <- Crowd],
                          receive after Ms -> ok end
                  end).

%% @doc In each round, sends a process a message that no receive matches, and then one that it
%% is waiting for, of the same size. Returns the time for each message of the second kind, from
%% before its send until the receiver had it.
-spec junk(#{rounds := pos_integer(), pause_ms := non_neg_integer()}) -> {pid(), [span()]}.
junk(#{rounds := Rounds, pause_ms := Ms}) ->
    Self = self(),
    Pid = spawn(fun() -> repeat(Rounds, fun() -> receive {wanted, _} -> Self ! {self(), now_ns()} end end) end),
    {Pid, [begin
               Pid ! {unwanted, N},
               receive after Ms -> ok end,
               From = now_ns(),
               Pid ! {wanted, N},
               receive {Pid, To} -> {From, To} end
           end || N <- lists:seq(1, Rounds)]}.

%% @doc Sends N messages to a suspended process, and one more that lets it take them. So it fetches all of
%% them at once.
-spec flood(N :: pos_integer()) -> pid().
flood(N) ->
    Pid = prepared(fun() -> repeat(N, fun() -> receive message -> ok end end) end),
    true = erlang:suspend_process(Pid),
    repeat(N, fun() -> Pid ! message end),
    Pid ! go,
    true = erlang:resume_process(Pid),
    receive {Pid, _} -> Pid end.

%% @doc Has processes send messages to one at the same time. It takes the first message of each, then the
%% second one of each. With buffers, each scheduler has a queue of its own for it.
-spec gather(#{senders := pos_integer(), each := pos_integer(), buffers := boolean()}) -> pid().
gather(#{senders := Senders, each := Each, buffers := Buffers}) ->
    Self = self(),
    Numbers = lists:seq(1, Each),
    Pid = spawn(fun() ->
                        Buffers andalso use_buffers(),
                        Self ! {self(), ready},
                        _ = [repeat(Senders, fun() -> receive {message, Number} -> ok end end) || Number <- Numbers],
                        Self ! {self(), done}
                end),
    receive {Pid, ready} -> ok end,
    repeat(Senders, fun() -> spawn(fun() -> [Pid ! {message, Number} || Number <- Numbers] end) end),
    receive {Pid, done} -> Pid end.

use_buffers() ->
    process_flag(message_queue_data, off_heap),
    _ = erts_debug:set_internal_state(available_internal_state, true),
    true = erts_debug:set_internal_state(proc_sig_buffers, true).

%% @doc Sends N messages to a process that wants none, and ends while they wait.
-spec abandoned(N :: pos_integer()) -> pid().
abandoned(N) ->
    Sent = atomics:new(1, []),
    {Pid, Ref} = spawn_monitor(fun() -> spin(Sent) end),
    repeat(N, fun() -> Pid ! message end),
    ok = atomics:put(Sent, 1, 1),
    receive {'DOWN', Ref, process, Pid, normal} -> Pid end.

%% Makes no garbage, because a collection fetches messages.
spin(Sent) ->
    case atomics:get(Sent, 1) of
        0 -> spin(Sent);
        1 -> ok
    end.

%%% Calls

%% @doc Calls a gen_server that replies after some milliseconds, with the given timeouts.
%% Returns when each call began and ended, with or without a reply.
-spec calls([{Ms :: non_neg_integer(), timeout()}]) -> {pid(), [span()]}.
calls(Calls) ->
    Server = server(),
    Pid = prepared(fun() -> [timed(fun() -> attempt(Server, {reply_after, Ms}, Timeout) end) || {Ms, Timeout} <- Calls] end),
    {Pid, finish(Pid)}.

%% @doc Makes three processes call servers that fail. The first one makes N calls to processes
%% that no longer exist. The second one makes N calls to processes that exit when called. The
%% third one makes one such call, and then removes a monitor of another process.
-spec dead_calls(N :: pos_integer()) -> [pid()].
dead_calls(N) ->
    Gone = prepared(fun() -> [fail(gone(), reply) || _ <- lists:seq(1, N)] end),
    Servers = [server() || _ <- lists:seq(0, N)],
    Exit = prepared(fun() -> [fail(Server, stop) || Server <- tl(Servers)] end),
    Other = prepared(fun() -> fail(hd(Servers), stop), erlang:demonitor(erlang:monitor(process, whereis(init))) end),
    [begin _ = finish(Pid), Pid end || Pid <- [Gone, Exit, Other]].

fail(Server, Request) ->
    failed = attempt(Server, Request, infinity).

%% Returns the reply of a call, or `failed'.
attempt(Server, Request, Timeout) ->
    try gen_server:call(Server, Request, Timeout) catch exit:_ -> failed end.

gone() ->
    {Pid, Ref} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Ref, process, Pid, _} -> Pid end.

server() ->
    {ok, Server} = gen_server:start(?MODULE, [], []),
    Server.

init([]) -> {ok, none}.

handle_call(reply, _From, State) -> {reply, ok, State};
handle_call({reply_after, 0}, _From, State) -> {reply, ok, State};
handle_call({reply_after, Ms}, From, State) ->
    spawn(fun() -> live(Ms), gen_server:reply(From, ok) end),
    {noreply, State};
handle_call(stop, _From, State) -> {stop, normal, State}.

handle_cast(_, State) -> {noreply, State}.

%%% Congestion

%% @doc Writes to a socket without a reader until its queue is at the high watermark, and reads
%% from it some time later. Returns the write that had to wait, when the queue was found full,
%% and when reading began.
-spec congested_port(Ms :: non_neg_integer()) -> {span(), Full :: ns(), Read :: ns()}.
congested_port(Ms) ->
    {ok, Listen} = gen_tcp:listen(0, [binary, {active, false}, {ip, {127, 0, 0, 1}}, {recbuf, 4096}]),
    {ok, Number} = inet:port(Listen),
    {ok, Out} = gen_tcp:connect({127, 0, 0, 1}, Number, [binary, {active, false}, {sndbuf, 4096}, {high_watermark, ?HIGH_WATERMARK}]),
    {ok, In} = gen_tcp:accept(Listen),
    Data = binary:copy(<<0>>, 4096),
    Writer = prepared(fun() -> until_told([], fun() -> ok = gen_tcp:send(Out, Data) end) end),
    Writer ! go,
    wait_for_queue(Out, ?HIGH_WATERMARK),
    Full = now_ns(),
    Writer ! stop,
    receive after Ms -> ok end,
    Read = now_ns(),
    Reader = spawn_link(fun() -> receive go -> read_all(In) end end),
    ok = gen_tcp:controlling_process(In, Reader),
    Reader ! go,
    [Last | _] = receive {Writer, Result} -> Result end,
    ok = gen_tcp:close(Out),
    ok = gen_tcp:close(Listen),
    {Last, Full, Read}.

%% Polls, because the VM does not report when the queue of a port grows.
wait_for_queue(Port, Bytes) ->
    case erlang:port_info(Port, queue_size) of
        {queue_size, N} when N >= Bytes -> ok;
        _ -> receive after 1 -> wait_for_queue(Port, Bytes) end
    end.

read_all(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, _} -> read_all(Socket);
        {error, closed} -> ok
    end.

%% @doc Sends messages to a node that does not read them, until the sender stays suspended: the
%% queue of the connection's port is at the high watermark. Returns the sender, when it began,
%% and when it was found suspended.
-spec suspended_sender(node()) -> {pid(), Began :: ns(), Suspended :: ns()}.
suspended_sender(Node) ->
    Data = binary:copy(<<0>>, 8192), % larger messages would be sent in fragments
    Began = now_ns(),
    Pid = spawn(fun() -> Sent = until_told([], fun() -> {nobody, Node} ! Data end),
                         receive {let_go, From} -> From ! {self(), hd(Sent)} end
                end),
    {Node, Port} = lists:keyfind(Node, 1, erlang:system_info(dist_ctrl)),
    wait_for_queue(Port, ?HIGH_WATERMARK),
    wait_for_status(Pid, suspended),
    Suspended = now_ns(),
    Pid ! stop,
    {Pid, Began, Suspended}.

%% @doc Returns the send that suspended the process, after it has finished.
-spec let_go(pid()) -> span().
let_go(Pid) ->
    Pid ! {let_go, self()},
    receive {Pid, Span} -> Span end.

%% Repeats Work until it receives stop. Returns the times of all runs, the last one first.
until_told(Done, Work) ->
    receive stop -> Done
    after 0 -> until_told([timed(Work) | Done], Work)
    end.

%% Polls, because the VM does not report when the status of a process changes.
wait_for_status(Pid, Status) ->
    case process_info(Pid, status) of
        {status, Status} -> ok;
        _ -> receive after 1 -> wait_for_status(Pid, Status) end
    end.

%%% Common helpers

now_ns() -> erlang:monotonic_time(nanosecond).

timed(Work) ->
    From = now_ns(),
    _ = Work(),
    {From, now_ns()}.

repeat(0, _) -> ok;
repeat(N, Work) ->
    _ = Work(),
    repeat(N - 1, Work).

%% Starts a process that waits for permission to do its work, and waits again after it.
prepared(Work) ->
    Parent = self(),
    Pid = spawn(fun() ->
                        Parent ! {self(), ready},
                        receive go -> ok end,
                        Parent ! {self(), Work()},
                        receive leave -> ok end
                end),
    receive {Pid, ready} -> Pid end.

finish(Pid) ->
    Pid ! go,
    receive {Pid, Result} -> Result end.

%% Makes a prepared process do its work and traces it. Returns the result, and what happened
%% when. The process sends its result in a separate turn, whose end is traced as well.
traced(Pid, Flag) ->
    1 = erlang:trace(Pid, true, [Flag, monotonic_timestamp]),
    Result = finish(Pid),
    Ref = erlang:trace_delivered(Pid),
    receive {trace_delivered, Pid, Ref} -> ok end,
    Trace = to_the_end(trace_of(Pid), Pid),
    1 = erlang:trace(Pid, false, [Flag]),
    {Result, Trace}.

trace_of(Pid) ->
    receive {trace_ts, Pid, _, _, _} = Event -> [event(Event) | trace_of(Pid)]
    after 0 -> []
    end.

to_the_end(Trace, Pid) ->
    case Trace =/= [] andalso lists:last(Trace) of
        {in, _, _} -> receive {trace_ts, Pid, out, _, _} = Event -> Trace ++ [event(Event)] end;
        _ -> Trace
    end.

event({trace_ts, _, What, Info, At}) ->
    {What, Info, erlang:convert_time_unit(At, native, nanosecond)}.
