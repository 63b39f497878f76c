%%% The arguments of the fired probes. Runs with the dyntrace in listening/.
-module(beamscope_listening_tests).
-include_lib("eunit/include/eunit.hrl").

hit() ->
    receive {hit, _, _, _, _, _, _, _} = Hit -> Hit after 0 -> none end.

label(Name) -> 1 + erlang:crc32(Name) rem 950.

start_and_end_test() ->
    Label = label(<<"worker_1">>),
    {undefined, {Id, Label, <<"worker_1">>} = Span} = beamscope:start_span(<<"worker_1">>),
    ?assertEqual({hit, Label, Id, 1, 1, 0, <<"worker_1">>, <<>>}, hit()),
    ok = beamscope:end_span(undefined, Span),
    ?assertEqual({hit, Label, Id, 2, 1, 0, <<"worker_1">>, <<>>}, hit()),
    ?assertEqual(none, hit()).

known_label_test() ->
    %% Computed by hand: the CRC-32 of these nine bytes is the check value 16#CBF43926.
    {_, {_, Label, _}} = beamscope:start_span(<<"123456789">>),
    _ = hit(),
    ?assertEqual(1 + 16#CBF43926 rem 950, Label).

ids_differ_test() ->
    Ids = [element(1, element(2, beamscope:start_span(a))) || _ <- lists:seq(1, 100)],
    [hit() || _ <- Ids],
    ?assertEqual(100, length(lists:usort(Ids))).

fail_test_() ->
    [?_assertEqual(Expected, failed(Class))
     || {Class, Expected} <- [{dropped, <<"dropped">>},
                              {<<"db">>, <<"db">>},
                              {"text", <<"text">>},
                              {["io", $d, <<"ata">>], <<"iodata">>},
                              {{error, 7}, <<"{error,7}">>},
                              {42, <<"42">>},
                              {[{not_a, text}], <<"[{not_a,text}]">>},
                              {1 bsl 3000000, <<"'big integer'">>}, % would take half a minute
                              {binary:copy(<<"x">>, 256), binary:copy(<<"x">>, 255)}]].

failed(Class) ->
    {_, Span} = beamscope:start_span(a),
    _ = hit(),
    ok = beamscope:fail_span(Span, Class),
    {hit, _, _, 3, 1, 0, <<"a">>, Detail} = hit(),
    Detail.

fail_without_class_test() ->
    {_, Span} = beamscope:start_span(a),
    _ = hit(),
    ok = beamscope:fail_span(Span),
    ?assertMatch({hit, _, _, 3, 1, 0, <<"a">>, <<>>}, hit()).

names_test_() ->
    [?_assertEqual(Expected, named(Name))
     || {Name, Expected} <- [{worker, <<"worker">>},
                             {"worker", <<"worker">>},
                             {[<<"wor">>, "ker"], <<"worker">>},
                             {[1024], <<1024/utf8>>},
                             {{odd, name}, <<"{odd,name}">>},
                             {binary:copy(<<"n">>, 255), binary:copy(<<"n">>, 255)},
                             {binary:copy(<<"n">>, 300), binary:copy(<<"n">>, 255)}]].

named(Name) ->
    {_, {_, Label, Text}} = beamscope:start_span(Name),
    ?assertMatch({hit, Label, _, 1, 1, 0, Text, <<>>}, hit()),
    ?assertEqual(label(Text), Label),
    Text.

nobody_listens_test() ->
    put(nobody, true),
    {undefined, ignore} = beamscope:start_span(a),
    ?assertMatch({hit, _, _, 1, _, _, _, _}, hit()),
    erase(nobody),
    ok = beamscope:end_span(undefined, ignore),
    ok = beamscope:fail_span(ignore),
    ok = beamscope:fail_span(ignore, oops),
    ?assertEqual(none, hit()).

elsewhere_test() ->
    {Ctx, Span} = beamscope:start_span(a),
    {hit, Label, Id, 1, _, _, _, _} = hit(),
    Self = self(),
    spawn_link(fun() -> beamscope:end_span(Ctx, Span), Self ! {there, hit()} end),
    receive {there, Hit} -> ?assertMatch({hit, Label, Id, 2, 1, 0, <<"a">>, <<>>}, Hit) end.

explicit_parent_test() ->
    {_, {Id, _, _} = Parent} = beamscope:start_span(a),
    _ = hit(),
    _ = beamscope:start_span(b, #{parent => Parent}),
    ?assertMatch({hit, _, _, 1, 1, Id, <<"b">>, <<>>}, hit()),
    _ = beamscope:start_span(b, #{parent => ignore}),
    ?assertMatch({hit, _, _, 1, 1, 0, <<"b">>, <<>>}, hit()).

with_span_nests_test() ->
    Value = beamscope:with_span(
              outer,
              fun() ->
                      {hit, _, Outer, 1, 1, 0, <<"outer">>, _} = hit(),
                      inner = beamscope:with_span(
                                inner,
                                fun() ->
                                        {hit, _, Inner, 1, 1, Outer, <<"inner">>, _} = hit(),
                                        _ = beamscope:start_span(leaf),
                                        {hit, _, _, 1, 1, Inner, <<"leaf">>, _} = hit(),
                                        inner
                                end),
                      {hit, _, _, 2, 1, 0, <<"inner">>, _} = hit(),
                      _ = beamscope:start_span(sibling),
                      {hit, _, _, 1, 1, Outer, <<"sibling">>, _} = hit(),
                      outer
              end),
    ?assertEqual(outer, Value),
    ?assertMatch({hit, _, _, 2, 1, 0, <<"outer">>, _}, hit()),
    ?assertEqual(undefined, get('$beamscope_span')).

exception_test_() ->
    Deep = lists:duplicate(1000, deep),
    [?_test(raises(Raise, Class, Reason, Detail))
     || {Raise, Class, Reason, Detail} <-
            [{fun() -> 1 div get(nothing) end, error, badarith, <<"error:badarith">>},
             {fun() -> throw(away) end, throw, away, <<"throw:away">>},
             {fun() -> exit({shutdown, x}) end, exit, {shutdown, x}, <<"exit:{shutdown,x}">>},
             {fun() -> error(Deep) end, error, Deep, any}]].

%% The arguments of a call that has failed are no part of the class, because they differ from call to
%% call. An atom remains, because it is the name of the called process.
call_test_() ->
    [?_test(raises(fun() -> exit(Reason) end, exit, Reason, Detail))
     || {Reason, Detail} <-
            [{{timeout, {gen_server, call, [cold_db, {q, 2459}, 100]}}, <<"exit:{timeout,{gen_server,call,[cold_db]}}">>},
             {{timeout, {gen_server, call, [self(), {q, 2459}]}}, <<"exit:{timeout,{gen_server,call}}">>},
             {{timeout, {gen_statem, call, [{global, db}, q]}}, <<"exit:{timeout,{gen_statem,call}}">>},
             {{timeout, {any_module, wait, [4711]}}, <<"exit:{timeout,{any_module,wait}}">>},
             {{noproc, {gen_server, call, [cold_db, q]}}, <<"exit:{noproc,{gen_server,call,[cold_db]}}">>},
             {{{nodedown, n@h}, {gen_server, call, [{db, n@h}, q]}}, <<"exit:{{nodedown,n@h},{gen_server,call}}">>},
             {{normal, {gen_event, call, [log, handler, q]}}, <<"exit:{normal,{gen_event,call,[log]}}">>},
             {{normal, {'Elixir.GenServer', call, [self(), q, 5000]}}, <<"exit:{normal,{'Elixir.GenServer',call}}">>},
             {{timeout, {'Elixir.Task', await, [#{ref => make_ref()}, 5000]}}, <<"exit:{timeout,{'Elixir.Task',await}}">>},
             {{{timeout, {gen_server, call, [disk, {read, 7}]}}, {gen_server, call, [cold_db, {q, 2459}]}},
              <<"exit:{{timeout,{gen_server,call,[disk]}},{gen_server,call,[cold_db]}}">>},
             %% These are no calls.
             {{shutdown, {my_module, my_fun, [1]}}, <<"exit:{shutdown,{my_module,my_fun,[1]}}">>},
             {{timeout, {gen_server, call}}, <<"exit:{timeout,{gen_server,call}}">>},
             {{timeout, {gen_server, call, 7}}, <<"exit:{timeout,{gen_server,call,7}}">>},
             {{timeout, {1, 2, [3]}}, <<"exit:{timeout,{1,2,[3]}}">>}]]
        ++ [?_test(raises(fun() -> error(Reason) end, error, Reason, Detail))
            || {Reason, Detail} <- [{{timeout, {gen_server, call, [cold_db, 1]}}, <<"error:{timeout,{gen_server,call,[cold_db,1]}}">>}]].

%% A real call.
call_timeout_test() ->
    Silent = spawn_link(fun() -> receive stop -> ok end end),
    register(cold_db, Silent),
    ?assertExit({timeout, _}, beamscope:with_span(a, fun() -> gen_server:call(cold_db, {q, 2459}, 1) end)),
    {hit, _, Id, 1, _, _, _, _} = hit(),
    ?assertMatch({hit, _, Id, 3, 1, 0, <<"a">>, <<"exit:{timeout,{gen_server,call,[cold_db]}}">>}, hit()),
    Silent ! stop.

raises(Raise, Class, Reason, Expected) ->
    {Class, Reason, Stack} = try beamscope:with_span(a, Raise)
                             catch C:R:S -> {C, R, S}
                             end,
    {hit, _, Id, 1, _, _, _, _} = hit(),
    {hit, _, Id, 3, 1, 0, <<"a">>, Detail} = hit(),
    ?assert(Expected =:= any orelse Expected =:= Detail),
    ?assert(byte_size(Detail) =< 255),
    ?assert(lists:keymember(?MODULE, 1, lists:sublist(Stack, 2))),
    ?assertEqual(undefined, get('$beamscope_span')),
    ?assertEqual(none, hit()).

dqsd_otel_test() ->
    {Ctx, Span} = dqsd_otel:start_span(<<"old">>),
    ok = dqsd_otel:fail_span(Span),
    ok = dqsd_otel:end_span(Ctx, Span),
    ?assertEqual([1, 3, 2], [element(4, hit()) || _ <- [1, 2, 3]]),
    ?assertEqual(7, dqsd_otel:with_span(<<"old">>, fun() -> 7 end, #{attributes => [{a, 1}]})),
    ?assertEqual([1, 2], [element(4, hit()) || _ <- [1, 2]]).
