-module(span_load_tests).
-include_lib("eunit/include/eunit.hrl").

all_of_them_test_() ->
    [{atom_to_list(How),
      ?_assertMatch(#{spans := 10, elapsed_ns := E} when E > 0, span_load:How(#{procs => 3, spans => 10}))}
     || How <- [run, within, children, open, failing, raising, dying]].

measured_test() ->
    Delays = span_load:measured(#{procs => 3, spans => 10, loops => 1000}),
    ?assertEqual(10, length(Delays)),
    [?assert(Ns > 0) || {0, Ns} <- Delays].

none_test() ->
    ?assertMatch(#{spans := 0}, span_load:run(#{spans => 0})).
