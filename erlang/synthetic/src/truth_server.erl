%%% @doc A server for {@link cause_waits} that records what it does. It answers with the time
%%% of its answer.
-module(truth_server).
-behaviour(gen_server).

-export([start/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_continue/2, handle_info/2]).

-define(PATIENCE, 60_000). % ms

-type request() ::
        {work, Nanoseconds :: integer()}
      | {sleep, Milliseconds :: integer()}
      | {report, Times :: pos_integer(), Nanoseconds :: integer()} % works the given number of times, and reports each time, also just before it answers
      | {ask, Server :: pid(), request()} % calls another server, and then answers
      | {later, Milliseconds :: integer()} % stays idle until a timer makes it answer
      | never % never answers
      | {hibernate, request()} % hibernates after the request
      | {fail, Nanoseconds :: integer()}. % works, and then ends

-export_type([request/0]).

%% @doc Starts a server with the given name, not linked to the caller.
-spec start(atom()) -> pid().
start(Name) ->
    {ok, Pid} = gen_server:start({local, Name}, ?MODULE, none, []),
    Pid.

-spec init(none) -> {ok, none}.
init(none) -> {ok, none}.

-spec handle_call(request(), gen_server:from(), none) ->
          {reply, integer(), none, {continue, idle} | hibernate} | {noreply, none} | {stop, {shutdown, {ended, integer()}}, none}.
handle_call(never, _From, none) ->
    {noreply, none};
handle_call({later, Milliseconds}, From, none) ->
    _ = erlang:send_after(Milliseconds, self(), {answer, From}),
    {noreply, none};
handle_call({report, Times, Nanoseconds}, {Caller, _} = _From, none) ->
    _ = [begin ok = truth:work(Nanoseconds), Caller ! {report, N} end || N <- lists:seq(1, Times)],
    {reply, truth:now_ns(), none, {continue, idle}};
handle_call({hibernate, Request}, From, none) ->
    {reply, Answer, none, _} = handle_call(Request, From, none),
    {reply, Answer, none, hibernate};
handle_call({fail, Nanoseconds}, _From, none) ->
    ok = truth:work(Nanoseconds),
    {stop, {shutdown, {ended, truth:now_ns()}}, none};
handle_call(Request, _From, none) ->
    ok = do(Request),
    {reply, truth:now_ns(), none, {continue, idle}}.

-spec handle_cast({work, Nanoseconds :: integer()}, none) -> {noreply, none, {continue, idle}}.
handle_cast(Request, none) ->
    ok = do(Request),
    {noreply, none, {continue, idle}}.

%% Called after the answer was sent, which may have cost the server its processor.
-spec handle_continue(idle, none) -> {noreply, none}.
handle_continue(idle, none) ->
    Now = truth:now_ns(),
    ok = truth:tell(idle, none, Now, Now, Now),
    {noreply, none}.

-spec handle_info({answer, gen_server:from()} | term(), none) -> {noreply, none}.
handle_info({answer, From}, none) ->
    gen_server:reply(From, truth:now_ns()),
    {noreply, none};
handle_info(_, none) ->
    {noreply, none}.

do({work, Nanoseconds}) -> truth:work(Nanoseconds);
do({sleep, Milliseconds}) -> _ = truth:sleep(Milliseconds), ok;
do({ask, Server, Request}) -> _ = truth:call(Server, Request, ?PATIENCE), ok.
