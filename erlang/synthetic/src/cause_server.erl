%%% @doc A server that works, for {@link cause_others}. Amounts of work are in nanoseconds.
-module(cause_server).
-behaviour(gen_server).

-export([start_link/1, work/2]).
-export([init/1, handle_call/3, handle_cast/2]).

-define(PATIENCE, 60_000). % ms

%% @doc Starts a server with the given name.
-spec start_link(atom()) -> pid().
start_link(Name) ->
    {ok, Pid} = gen_server:start_link({local, Name}, ?MODULE, none, []),
    Pid.

%% @doc Makes the server work, without waiting for the result.
-spec work(pid(), Nanoseconds :: integer()) -> ok.
work(Server, Nanoseconds) ->
    gen_server:cast(Server, {work, Nanoseconds}).

-spec init(none) -> {ok, none}.
init(none) -> {ok, none}.

-spec handle_call(Request, gen_server:from(), none) -> {reply, term(), none} when
      Request :: now % the time at which it began to handle this request
               | {work, Nanoseconds :: integer()} % how long it worked
               | {work, Nanoseconds :: integer(), Tell :: pid()} % also sends Tell a message when it begins
               | {ask, Server :: pid(), Request}. % the answer of another server
handle_call(now, _From, none) ->
    {reply, erlang:monotonic_time(nanosecond), none};
handle_call({work, Nanoseconds}, _From, none) ->
    {reply, synthetic_work:timed(fun() -> synthetic_work:busy(Nanoseconds) end), none};
handle_call({work, Nanoseconds, Tell}, From, none) ->
    Tell ! at_work,
    handle_call({work, Nanoseconds}, From, none);
handle_call({ask, Server, Request}, _From, none) ->
    {reply, gen_server:call(Server, Request, ?PATIENCE), none}.

-spec handle_cast({work, Nanoseconds :: integer()}, none) -> {noreply, none}.
handle_cast({work, Nanoseconds}, none) ->
    ok = synthetic_work:busy(Nanoseconds),
    {noreply, none}.
