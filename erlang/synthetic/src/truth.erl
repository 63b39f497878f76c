%%% @doc What processes did, and what they waited for, by their own clocks: what is found out
%%% about them from outside is compared with it.
%%%
%%% A phase says what a process did from a time to another one. Where it waited, what it
%%% waited for was there at a time in between, when it was `due'; what is behind that is the
%%% way until it went on. Times are `erlang:monotonic_time(nanosecond)'.
-module(truth).

-export([begin_telling/0, end_telling/0, tell/5, now_ns/0]).
-export([work/1, busy/1, sleep/1, call/3, request/4, message/2]).

-export_type([what/0, phase/0]).

-type what() :: run      % it computed
              | sleep    % it waited for a time
              | timeout  % it waited for an answer of a process, for a time, which did not come
              | message  % it waited for a message of a process, or for one that showed that process's end
              | timer    % it waited for the message of a timer
              | suspended % another process had suspended it
              | port     % it waited for a message of a port
              | node.    % it waited for a message of another node

-type phase() :: {pid(), what(), Of :: pid() | port() | none, From :: integer(), Due :: integer(), To :: integer()}.

-define(MS, 1_000_000). % in ns

%% @doc From now on phases are kept, for the caller.
-spec begin_telling() -> ok.
begin_telling() ->
    ?MODULE = ets:new(?MODULE, [named_table, public, bag, {write_concurrency, true}]),
    ok.

%% @doc Returns all that was told.
-spec end_telling() -> [phase()].
end_telling() ->
    Phases = ets:tab2list(?MODULE),
    true = ets:delete(?MODULE),
    Phases.

%% @doc Tells a phase of the process that calls it. What comes when nobody listens is
%% forgotten.
-spec tell(what(), pid() | port() | none, From :: integer(), Due :: integer(), To :: integer()) -> ok.
tell(What, Of, From, Due, To) ->
    try ets:insert(?MODULE, {self(), What, Of, From, Due, To}) of
        true -> ok
    catch
        error:badarg -> ok
    end.

%% @doc Works for so long.
-spec work(Nanoseconds :: integer()) -> ok.
work(Nanoseconds) ->
    From = now_ns(),
    ok = busy(Nanoseconds),
    To = now_ns(),
    tell(run, none, From, To, To).

%% @doc Computes for so long, in slices of some milliseconds: each reduction takes long, so
%% that there is not much to record.
-spec busy(Nanoseconds :: integer()) -> ok.
busy(Nanoseconds) ->
    busy_until(now_ns() + Nanoseconds, 1 bsl 4000 - 1).

busy_until(Deadline, Number) ->
    ok = multiply(20, Number),
    case now_ns() >= Deadline of
        true -> ok;
        false -> busy_until(Deadline, Number)
    end.

multiply(0, _) -> ok;
multiply(N, Number) ->
    _ = Number * Number,
    multiply(N - 1, Number).

%% @doc Sleeps. Returns how long that took.
-spec sleep(Milliseconds :: non_neg_integer()) -> Nanoseconds :: integer().
sleep(Milliseconds) ->
    From = now_ns(),
    receive after Milliseconds -> ok end,
    To = now_ns(),
    ok = tell(sleep, none, From, From + Milliseconds * ?MS, To),
    To - From.

%% @doc Calls a server that answers with the time of its answer. Returns how long that took.
-spec call(gen_server:server_ref(), term(), timeout()) -> Nanoseconds :: integer().
call(Server, Request, Patience) ->
    request(gen_server, Server, Request, Patience).

%% @doc Calls a server of a kind. It may not answer in time, or end before it answers.
-spec request(gen_server | gen_statem, pid(), term(), timeout()) -> Nanoseconds :: integer().
request(Module, Server, Request, Patience) ->
    From = now_ns(),
    {What, Due} = try Module:call(Server, Request, Patience) of
                      Answered -> {message, Answered}
                  catch
                      exit:{timeout, _} -> {timeout, From + Patience * ?MS};
                      exit:{{shutdown, {ended, At}}, _} -> {message, At}
                  end,
    To = now_ns(),
    ok = tell(What, Server, From, Due, To),
    To - From.

%% @doc Waits for a message by a function, which returns when it was sent. Returns how long
%% that took.
-spec message({what(), pid() | port() | none}, fun(() -> Due :: integer())) -> Nanoseconds :: integer().
message({What, Of}, Receive) ->
    From = now_ns(),
    Due = Receive(),
    To = now_ns(),
    ok = tell(What, Of, From, Due, To),
    To - From.

-spec now_ns() -> integer().
now_ns() -> erlang:monotonic_time(nanosecond).
