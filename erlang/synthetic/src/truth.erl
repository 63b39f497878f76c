%%% @doc Records what processes did and what they waited for, measured by their own clocks.
%%% Tests compare this with the results of external observation.
%%%
%%% A phase describes what a process did between two times. If the process waited, the awaited
%%% event happened at the time `due' in between; from then on the process was only delayed
%%% until it continued. Times are `erlang:monotonic_time(nanosecond)'.
-module(truth).

-export([begin_telling/0, end_telling/0, tell/5, now_ns/0]).
-export([work/1, busy/1, sleep/1, call/3, request/4, message/2]).

-export_type([what/0, phase/0]).

-type what() :: run      % computed
              | idle     % begins to wait for its next request; only From is meant
              | sleep    % waited for a time
              | timeout  % waited for an answer of a process until the timeout; no answer came
              | message  % waited for a message of a process, or for a message that reported the end of that process
              | timer    % waited for the message of a timer
              | suspended % was suspended by another process
              | port     % waited for a message of a port
              | node.    % waited for a message of another node

-type phase() :: {pid(), what(), Of :: pid() | port() | none, From :: integer(), Due :: integer(), To :: integer()}.

-define(MS, 1_000_000). % in ns

%% @doc Begins to record phases, for the caller.
-spec begin_telling() -> ok.
begin_telling() ->
    ?MODULE = ets:new(?MODULE, [named_table, public, bag, {write_concurrency, true}]),
    ok.

%% @doc Ends the recording and returns all recorded phases.
-spec end_telling() -> [phase()].
end_telling() ->
    Phases = ets:tab2list(?MODULE),
    true = ets:delete(?MODULE),
    Phases.

%% @doc Records a phase of the calling process. If no recording is active, it does nothing.
-spec tell(what(), pid() | port() | none, From :: integer(), Due :: integer(), To :: integer()) -> ok.
tell(What, Of, From, Due, To) ->
    try ets:insert(?MODULE, {self(), What, Of, From, Due, To}) of
        true -> ok
    catch
        error:badarg -> ok
    end.

%% @doc Works for the given time.
-spec work(Nanoseconds :: integer()) -> ok.
work(Nanoseconds) ->
    From = now_ns(),
    ok = busy(Nanoseconds),
    To = now_ns(),
    tell(run, none, From, To, To).

%% @doc Computes for the given time, in slices of some milliseconds. Each reduction takes long,
%% so a tracer has little to record.
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

%% @doc Sleeps, and returns how long that took.
-spec sleep(Milliseconds :: non_neg_integer()) -> Nanoseconds :: integer().
sleep(Milliseconds) ->
    From = now_ns(),
    receive after Milliseconds -> ok end,
    To = now_ns(),
    ok = tell(sleep, none, From, From + Milliseconds * ?MS, To),
    To - From.

%% @doc Calls a server that answers with the time of its answer. Returns how long the call
%% took.
-spec call(gen_server:server_ref(), term(), timeout()) -> Nanoseconds :: integer().
call(Server, Request, Patience) ->
    request(gen_server, Server, Request, Patience).

%% @doc Calls a server of the given kind. The server may answer too late, or end before it
%% answers.
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

%% @doc Waits for a message by calling a function, which returns the time at which the message
%% was sent. Returns how long the wait took.
-spec message({what(), pid() | port() | none}, fun(() -> Due :: integer())) -> Nanoseconds :: integer().
message({What, Of}, Receive) ->
    From = now_ns(),
    Due = Receive(),
    To = now_ns(),
    ok = tell(What, Of, From, Due, To),
    To - From.

-spec now_ns() -> integer().
now_ns() -> erlang:monotonic_time(nanosecond).
