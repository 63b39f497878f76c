%%% @doc A state machine for {@link cause_waits}. It answers when its state times out.
-module(truth_statem).
-behaviour(gen_statem).

-export([start/1]).
-export([init/1, callback_mode/0, idle/3, asked/3]).

%% @doc Starts a state machine with the given name, not linked to the caller.
-spec start(atom()) -> pid().
start(Name) ->
    {ok, Pid} = gen_statem:start({local, Name}, ?MODULE, none, []),
    Pid.

-spec init(none) -> {ok, idle, none}.
init(none) -> {ok, idle, none}.

-spec callback_mode() -> state_functions.
callback_mode() -> state_functions.

-spec idle({call, gen_statem:from()}, {later, Milliseconds :: integer()}, none) -> gen_statem:state_function_result().
idle({call, From}, {later, Milliseconds}, none) ->
    {next_state, asked, From, {state_timeout, Milliseconds, answer}}.

-spec asked(state_timeout, answer, gen_statem:from()) -> gen_statem:state_function_result().
asked(state_timeout, answer, From) ->
    {next_state, idle, none, {reply, From, truth:now_ns()}}.
