%%% The seq_trace tokens of spans. Runs with the dyntrace in listening/, which sends hits as
%%% messages: receiving one within a span would replace the token.
-module(beamscope_token_tests).
-include_lib("eunit/include/eunit.hrl").

-define(ON, #{seq_trace => true}).
-define(FOREIGN, 17).
-define(OTHER_SPAN, 16#7fffffff). % a label of ours, of a span that nobody here has

label() -> seq_trace:get_token(label).

%% Runs Fun in a new process. Returns its result, and the token at its end.
in_process(Fun) ->
    Self = self(),
    Ref = make_ref(),
    {_, Monitor} = spawn_monitor(fun() ->
                                         Result = Fun(),
                                         Left = seq_trace:get_token(),
                                         _ = seq_trace:set_token([]),
                                         Self ! {Ref, Result, Left}
                                 end),
    receive
        {Ref, Result, Left} ->
            receive {'DOWN', Monitor, process, _, normal} -> {Result, Left} end;
        {'DOWN', Monitor, process, _, Why} ->
            error(Why)
    end.

label_of({Id, _, _, Token}) ->
    ?assertEqual(16#40000000 bor (Id band 16#3fffffff), Token),
    {label, Token}.

off_by_default_test() ->
    ?assertMatch({{{_, _, _}, []}, []},
                 in_process(fun() -> {_, Span} = beamscope:start_span(a), {Span, label()} end)),
    ?assertEqual({[], []}, in_process(fun() -> beamscope:with_span(a, fun label/0) end)),
    ?assertEqual({[], []}, in_process(fun() -> beamscope:with_span(a, fun label/0, #{seq_trace => false}) end)).

nobody_listens_test() ->
    ?assertEqual({{{undefined, ignore}, []}, []},
                 in_process(fun() ->
                                    put(nobody, true),
                                    [] = beamscope:with_span(a, fun label/0, ?ON),
                                    {beamscope:start_span(a, ?ON), label()}
                            end)).

%% Without flags, so that nothing is traced.
start_and_end_test() ->
    {_, Left} = in_process(
                  fun() ->
                          {Ctx, Span} = beamscope:start_span(a, ?ON),
                          ?assertEqual(label_of(Span), label()),
                          ?assertMatch({0, _, 0, _, _}, seq_trace:get_token()),
                          ok = beamscope:end_span(Ctx, Span)
                  end),
    ?assertEqual([], Left).

fail_test() ->
    ?assertMatch({ok, []},
                 in_process(fun() ->
                                    {Ctx, Span} = beamscope:start_span(a, ?ON),
                                    ok = beamscope:fail_span(Span, oops),
                                    ?assertEqual([], label()),
                                    ok = beamscope:end_span(Ctx, Span)
                            end)).

is_a_parent_test() ->
    in_process(fun() ->
                       {_, {Id, _, _, _} = Parent} = beamscope:start_span(a, ?ON),
                       _ = beamscope:start_span(b, #{parent => Parent}),
                       [_, {hit, _, _, 1, 1, Id, <<"b">>, <<>>}] = hits()
               end).

%% The environment of the application is the default.
environment_test() ->
    ok = application:set_env(beamscope, seq_trace, true),
    {probes, false, true} = beamscope_facilities:refresh(),
    try
        ?assertMatch({{label, _}, []}, in_process(fun() -> beamscope:with_span(a, fun label/0) end)),
        ?assertEqual({[], []}, in_process(fun() -> beamscope:with_span(a, fun label/0, #{seq_trace => false}) end)),
        in_process(fun() -> {_, {_, _, _, _} = Span} = beamscope:start_span(a), beamscope:hand_over(Span) end)
    after
        ok = application:unset_env(beamscope, seq_trace),
        {probes, false, false} = beamscope_facilities:refresh()
    end.

%% The token of the outermost span is used by all spans in it, and is restored after a message
%% without a token.
nested_test() ->
    ?assertMatch(
       {ok, []},
       in_process(
         fun() ->
                 beamscope:with_span(
                   a,
                   fun() ->
                           {label, _} = Outer = label(),
                           ?assertEqual(Outer, beamscope:with_span(b, fun label/0, ?ON)),
                           {Ctx, Span} = beamscope:start_span(c, ?ON),
                           ?assertMatch({_, _, _}, Span),
                           ok = beamscope:end_span(Ctx, Span),
                           ?assertEqual(Outer, label()),
                           beamscope:with_span(b, fun() -> plain_message(), ?assertEqual([], label()) end, ?ON),
                           ?assertEqual(Outer, label()),
                           plain_message(),
                           ?assertEqual(Outer, beamscope:with_span(b, fun label/0, ?ON)),
                           plain_message(),
                           ?assertEqual([], label()),
                           _ = beamscope:start_span(c, ?ON),
                           ?assertEqual(Outer, label()),
                           ok
                   end, ?ON)
         end)).

exception_test_() ->
    [?_test(?assertEqual({{Class, oops}, []},
                         in_process(fun() ->
                                            try beamscope:with_span(a, fun() -> nested(Class, Depth) end, ?ON)
                                            catch C:R -> {C, R}
                                            end
                                    end)))
     || Class <- [error, throw, exit], Depth <- [0, 1, 5]].

nested(Class, 0) -> erlang:raise(Class, oops, []);
nested(Class, Depth) -> beamscope:with_span(a, fun() -> nested(Class, Depth - 1) end, ?ON).

%% The receiver has the token. The sender no longer has it after hand_over.
handed_over_test() ->
    Ender = spawn_link(fun Loop() ->
                               receive
                                   {From, Ctx, Span} ->
                                       Label = label(),
                                       ok = beamscope:end_span(Ctx, Span),
                                       From ! {ended, Label, label()},
                                       Loop()
                               end
                       end),
    {Span, Left} = in_process(fun() ->
                                      {Ctx, Span} = beamscope:start_span(a, ?ON),
                                      Ender ! {self(), Ctx, Span},
                                      ok = beamscope:hand_over(Span),
                                      ?assertEqual([], label()),
                                      receive {ended, There, After} ->
                                              ?assertEqual(label_of(Span), There),
                                              ?assertEqual([], After)
                                      end,
                                      Span
                              end),
    ?assertEqual([], Left),
    unlink(Ender),
    exit(Ender, kill),
    ?assertEqual({ok, []}, in_process(fun() -> beamscope:hand_over(Span) end)),
    ok = beamscope:hand_over(ignore),
    {_, Without} = beamscope:start_span(a),
    ok = beamscope:hand_over(Without).

%% A span that ended within a with_span using its token: the token is not restored.
ended_inside_test() ->
    ?assertMatch({ok, []},
                 in_process(fun() ->
                                    {Ctx, Span} = beamscope:start_span(a, ?ON),
                                    beamscope:with_span(b, fun() -> beamscope:end_span(Ctx, Span) end, ?ON)
                            end)).

foreign_test() ->
    ?assertMatch(
       {_, {1, ?FOREIGN, _, _, _}},
       in_process(
         fun() ->
                 foreign_token(),
                 seq_trace:set_token(send, true),
                 ?assertMatch({1, ?FOREIGN, _, _, _}, beamscope:with_span(a, fun seq_trace:get_token/0, ?ON)),
                 {Ctx, {_, _, _} = Span} = beamscope:start_span(a, ?ON),
                 ok = beamscope:end_span(Ctx, Span),
                 ?assertMatch({1, ?FOREIGN, _, _, _}, seq_trace:get_token()),
                 seq_trace:set_token(send, true)
         end)).

%% A token that came with a message from another process's span is kept, and later spans find it,
%% until a message without a token arrives.
other_span_test() ->
    in_process(
      fun() ->
              {Ctx, Span} = beamscope:start_span(a, ?ON),
              other_span_message(),
              ok = beamscope:end_span(Ctx, Span),
              ?assertEqual({label, ?OTHER_SPAN}, label()),
              ?assertMatch({_, {_, _, _}}, beamscope:start_span(a, ?ON)),
              ?assertEqual({label, ?OTHER_SPAN}, beamscope:with_span(a, fun label/0, ?ON)),
              plain_message(),
              {label, Own} = beamscope:with_span(a, fun label/0, ?ON),
              ?assertNotEqual(?OTHER_SPAN, Own),
              beamscope:with_span(
                a,
                fun() ->
                        other_span_message(),
                        ?assertEqual({label, ?OTHER_SPAN}, beamscope:with_span(b, fun label/0, ?ON)),
                        ?assertEqual({label, ?OTHER_SPAN}, label())
                end, ?ON),
              ?assertEqual({label, ?OTHER_SPAN}, label())
      end).

%% The messages of a call have one sequence of numbers, without repetitions.
numbers_test() ->
    {Numbers, []} =
        in_process(
          fun() ->
                  Server = spawn_link(fun Echo() -> receive {From, X} -> From ! {X, seq_trace:get_token()}, Echo() end end),
                  Call = fun() -> Server ! {self(), x}, receive {x, {0, L, There, _, _}} ->
                                                                {_, L, Here, _, _} = seq_trace:get_token(),
                                                                [There, Here]
                                                        end
                         end,
                  Numbers = beamscope:with_span(
                              a,
                              fun() ->
                                      Call() ++ beamscope:with_span(b, fun() -> plain_message(), [] end, ?ON) ++ Call()
                                          ++ beamscope:with_span(b, Call, ?ON) ++ Call()
                              end, ?ON),
                  unlink(Server),
                  exit(Server, kill),
                  Numbers
          end),
    ?assertEqual(lists:usort(Numbers), Numbers).

%% Property: a program always ends up with the token that it would have without its spans.
property_test_() ->
    {timeout, 60, fun() -> [same_token(Seed) || Seed <- lists:seq(1, 1000)] end}.

same_token(Seed) ->
    _ = rand:seed(exsss, Seed),
    Program = [operation(4) || _ <- lists:seq(1, rand:uniform(6))],
    [With, Without] = [element(2, in_process(fun() -> try execute(Program, #{seq_trace => On}) catch _:_ -> ok end, ok end))
                       || On <- [true, false]],
    ?assertEqual({Program, without_numbers(Without)}, {Program, without_numbers(With)}).

without_numbers({Flags, Label, _, _, _}) -> {Flags, Label};
without_numbers([]) -> [].

operation(Depth) ->
    case rand:uniform(9) of
        N when N =< 4, Depth > 0 ->
            {element(N, {with, start_end, start_fail, overlapping}),
             [operation(Depth - 1) || _ <- lists:seq(1, rand:uniform(4))]};
        5 -> raise;
        6 -> foreign;
        7 -> foreign_message;
        8 -> other_span_message;
        _ -> plain_message
    end.

execute(Program, Attrs) -> lists:foreach(fun(Operation) -> do(Operation, Attrs) end, Program).

do({with, Program}, Attrs) ->
    beamscope:with_span(a, fun() -> execute(Program, Attrs) end, Attrs);
do({start_end, Program}, Attrs) ->
    {Ctx, Span} = beamscope:start_span(a, Attrs),
    try execute(Program, Attrs) after beamscope:end_span(Ctx, Span) end;
do({start_fail, Program}, Attrs) ->
    {_, Span} = beamscope:start_span(a, Attrs),
    try execute(Program, Attrs) after beamscope:fail_span(Span) end;
do({overlapping, Program}, Attrs) ->
    {Ctx1, Span1} = beamscope:start_span(a, Attrs),
    {Ctx2, Span2} = beamscope:start_span(a, Attrs),
    beamscope:with_span(
      a,
      fun() ->
              try execute(Program, Attrs)
              after beamscope:end_span(Ctx1, Span1), beamscope:end_span(Ctx2, Span2)
              end
      end, Attrs);
do(raise, _) -> throw(raised);
do(foreign, _) -> foreign_token();
do(foreign_message, _) -> message(fun foreign_token/0);
do(other_span_message, _) -> other_span_message();
do(plain_message, _) -> plain_message().

foreign_token() -> token(?FOREIGN).

token(Label) ->
    _ = seq_trace:set_token([]),
    seq_trace:set_token(label, Label).

other_span_message() -> message(fun() -> token(?OTHER_SPAN) end).

plain_message() -> message(fun() -> seq_trace:set_token([]) end).

%% Receives a message from a process that first runs a function.
message(First) ->
    Self = self(),
    Ref = make_ref(),
    spawn_link(fun() -> First(), Self ! Ref end),
    receive Ref -> ok end.

hits() -> receive {hit, _, _, _, _, _, _, _} = Hit -> [Hit | hits()] after 0 -> [] end.
