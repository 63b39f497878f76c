%%% Runs the tests of a module without EUnit's limit of 5 s per test, which is too short on a busy
%%% machine.
-module(patient).
-export([test/1]).

-define(PATIENCE, 120). % s

-spec test(module()) -> ok | error.
test(Module) ->
    eunit:test([tests(Module, Name, atom_to_list(Name)) || {Name, 0} <- Module:module_info(exports)], [verbose]).

tests(Module, Name, Text) ->
    case {lists:suffix("_test", Text), lists:suffix("_test_", Text)} of
        {true, _} -> limited({Module, Name});
        {_, true} -> limited(Module:Name());
        _ -> []
    end.

limited(Tests) when is_list(Tests) -> [limited(T) || T <- Tests];
limited({timeout, _, _} = Test) -> Test;
limited(Test) -> {timeout, ?PATIENCE, Test}.
