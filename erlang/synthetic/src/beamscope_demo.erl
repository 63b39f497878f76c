%%% @doc Runs in a VM that another program has started. It reads commands from stdin, one in
%%% each line:
%%%
%%% ```
%%% erl -noshell -pa .../ebin -run beamscope_demo main mm1k rate=500 k=10
%%%
%%% set rate 2000            ok ok
%%% set k 10                 ok ok
%%% set loops auto           ok ok
%%% call mm1k info [].       ok #{...}
%%% call lists max [[]].     error {function_clause,...}
%%% stop                     ok stopping
%%% '''
%%%
%%% The first argument of `main' is the system to start: `mm1k', `ftf' or `atf' for
%%% {@link workers} where the first or all have to finish, `pool' for {@link server_pool}, or
%%% `idle' for no system. The other arguments are options of the system, which `set' can change
%%% later.
%%%
%%% The line `ready <os pid>' means that the VM accepts commands. The answer to each command is
%%% one line, `ok Term' or `error Term'. Commands run one after the other. A command that
%%% begins with a tag, such as `@7 call ...', runs concurrently, and its answer begins with the
%%% same tag. While such commands run, a line without a tag is the output of something else.
%%%
%%% The VM ends when its stdin is closed. So it never outlives the program that started it,
%%% even if that program crashes.
-module(beamscope_demo).

-export([main/0, main/1]).

%% @equiv main([])
-spec main() -> ok.
main() ->
    main([]).

%% @doc Entry point for `-run', whose functions must return before the VM has started.
-spec main(Arguments :: [string()]) -> ok.
main(Arguments) ->
    _ = spawn(fun() -> boot(Arguments) end),
    ok.

boot(Arguments) ->
    try start(Arguments) of
        System ->
            Serial = spawn_link(fun() -> serial(System) end),
            say(["ready ", os:getpid()]),
            listen(Serial, System)
    catch
        _:Reason ->
            io:format(standard_error, "beamscope_demo: cannot start: ~0tp~n", [Reason]),
            halt(1)
    end.

%% Returns the module of the system.
start(["idle"]) ->
    idle;
start([Name | Arguments]) ->
    {Module, Fixed} = system(Name),
    Options = maps:from_list([option(A) || A <- Arguments]),
    {ok, _} = Module:start(maps:merge(Options, Fixed)),
    Module;
start([]) ->
    throw({usage, "main mm1k|ftf|atf|pool|idle Option=Value ..."}).

system("mm1k") -> {mm1k, #{}};
system("ftf") -> {workers, #{join => first}};
system("atf") -> {workers, #{join => all}};
system("pool") -> {server_pool, #{}};
system(Name) -> throw({no_such_system, Name}).

option(Argument) ->
    [Key, Value] = string:split(Argument, "="),
    {atom(Key), evaluate(Value)}.

listen(Serial, System) ->
    case io:get_line("") of
        Line when is_list(Line) ->
            order(string:trim(Line), Serial, System),
            listen(Serial, System);
        _EofOrError ->
            halt(0, [{flush, false}])
    end.

order("", _Serial, _System) ->
    ok;
order("@" ++ _ = Line, _Serial, System) ->
    [Tag | Order] = string:split(Line, " "),
    _ = spawn(fun() -> answer([Tag, $\s], lists:append(Order), System) end),
    ok;
order(Line, Serial, _System) ->
    Serial ! Line,
    ok.

serial(System) ->
    receive Line -> answer("", Line, System) end,
    serial(System).

answer(Tag, "stop", _System) ->
    say([Tag, "ok stopping"]),
    halt(0);
answer(Tag, Order, System) ->
    {Word, Term} = try {"ok", obey(Order, System)}
                   catch
                       throw:Why -> {"error", Why};
                       _:Reason:Stack -> {"error", {Reason, lists:sublist(Stack, 2)}}
                   end,
    say([Tag, Word, $\s, io_lib:format("~0p", [Term])]).

obey("set " ++ _, idle) ->
    throw(idle);
obey("set " ++ Order, System) ->
    case string:lexemes(Order, " ") of
        [Key, Value] -> ok_or_throw(System:set(atom(Key), evaluate(Value)));
        _ -> throw({usage, "set Option Value"})
    end;
obey("call " ++ Order, _System) ->
    case string:split(Order, " ") of
        [Module, Rest] ->
            case string:split(Rest, " ") of
                [Function, Arguments] -> apply(atom(Module), atom(Function), evaluate(Arguments));
                _ -> throw({usage, "call Module Function [Argument, ...]."})
            end;
        _ ->
            throw({usage, "call Module Function [Argument, ...]."})
    end;
obey(Order, _System) ->
    throw({unknown_order, Order}).

ok_or_throw(ok) -> ok;
ok_or_throw({error, Why}) -> throw(Why).

atom(Text) -> list_to_atom(Text).

%% Evaluates an Erlang expression. The full stop at its end is optional.
evaluate(Text) ->
    {ok, Tokens, _} = erl_scan:string(string:trim(Text, trailing, ". ") ++ "."),
    {ok, Expressions} = erl_parse:parse_exprs(Tokens),
    {value, Value, _} = erl_eval:exprs(Expressions, []),
    Value.

say(Line) ->
    io:put_chars([Line, $\n]).
