%%% @doc A server that acts as a lock, for {@link cause_others}. One process holds it at a
%%% time. Waiting processes get it in the order of their requests.
-module(cause_lock).
-behaviour(gen_server).

-export([start_link/1, acquire/2, release/1]).
-export([init/1, handle_call/3, handle_cast/2]).

-type state() :: free | {held, Waiting :: queue:queue(gen_server:from())}.

%% @doc Starts a lock with the given name.
-spec start_link(atom()) -> pid().
start_link(Name) ->
    {ok, Pid} = gen_server:start_link({local, Name}, ?MODULE, free, []),
    Pid.

-spec acquire(pid(), timeout()) -> ok.
acquire(Lock, Patience) ->
    gen_server:call(Lock, acquire, Patience).

%% @doc Releases the lock. Only its holder may call this.
-spec release(pid()) -> ok.
release(Lock) ->
    gen_server:cast(Lock, release).

-spec init(free) -> {ok, state()}.
init(free) -> {ok, free}.

-spec handle_call(acquire, gen_server:from(), state()) -> {reply, ok, state()} | {noreply, state()}.
handle_call(acquire, _From, free) -> {reply, ok, {held, queue:new()}};
handle_call(acquire, From, {held, Waiting}) -> {noreply, {held, queue:in(From, Waiting)}}.

-spec handle_cast(release, state()) -> {noreply, state()}.
handle_cast(release, {held, Waiting0}) ->
    case queue:out(Waiting0) of
        {empty, _} -> {noreply, free};
        {{value, First}, Waiting} ->
            gen_server:reply(First, ok),
            {noreply, {held, Waiting}}
    end.
