%%% The first span of a VM. Loading code takes milliseconds, and must not happen between the start
%%% and the end of a span. Runs without EUnit, which itself loads much of that code.
-module(first_span).
-export([main/1]).

%% Halts with status 1 if any of many processes that start the first spans of the VM together is
%% not recorded.
main(["together"]) ->
    Self = self(),
    Processes = [spawn_link(fun() ->
                                    receive go -> ok end,
                                    {_, Span} = beamscope:start_span(<<"a">>),
                                    Self ! Span
                            end) || _ <- lists:seq(1, 100)],
    [Process ! go || Process <- Processes],
    Spans = [receive Span -> Span end || _ <- Processes],
    case [Span || Span <- Spans, Span =:= ignore] of
        [] -> halt(0);
        Ignored -> erlang:display({not_recorded, length(Ignored)}), halt(1)
    end;
%% Halts with status 1 if the VM has no ring after the processes of its first spans were killed, each
%% before its span had started.
main(["killed"]) ->
    true = register(gate, self()),
    Decider = lists:foldl(fun(_, Decider) -> killed(Decider) end, none, lists:seq(1, 20)),
    case lives(Decider) of
        true ->
            {group_leader, Leader} = process_info(Decider, group_leader),
            Leader = whereis(init), % not that of an application
            Decider ! go,
            {_, {ring, _, _, _}} = beamscope:start_span(<<"a">>),
            halt(0);
        false ->
            erlang:display({killed_while_deciding, Decider}),
            halt(1)
    end;
%% Halts with status 1 if a span fails, or is decided about again and again, in a VM that cannot load
%% code.
main(["no code server"]) ->
    {module, _} = code:ensure_loaded(beamscope),
    {module, _} = code:ensure_loaded(beamscope_facilities),
    true = unregister(code_server),
    {undefined, ignore} = beamscope:start_span(<<"a">>),
    {none, false, false} = persistent_term:get(beamscope_facilities_5, undecided),
    halt(0);
%% Halts with status 1 if the span loads a module, and prints which.
main([How]) ->
    put(hits, []),
    span(How),
    [{_, AtStart} | Later] = lists:reverse(get(hits)),
    {_, AtEnd} = lists:last(Later),
    case AtEnd -- AtStart of
        [] -> halt(0);
        Loaded -> erlang:display({loaded_in_span, Loaded}), halt(1)
    end.

%% Kills the process of a span while some process decides. Returns the process that decides.
killed(Decider) ->
    Leader = spawn_link(fun() -> receive never -> ok end end), % as an application has
    {Process, Monitor} = spawn_monitor(fun() -> group_leader(Leader, self()), beamscope:start_span(<<"a">>) end),
    Now = case lives(Decider) of
              true -> Decider;
              false -> receive {deciding, Other} -> Other end
          end,
    exit(Process, kill),
    receive {'DOWN', Monitor, process, Process, killed} -> Now end.

lives(none) -> false;
lives(Process) -> is_process_alive(Process).

span("token") ->
    beamscope:with_span(<<"a">>, fun() -> ok end, #{seq_trace => true});
span("start") ->
    {Ctx, Span} = beamscope:start_span(<<"a">>, #{seq_trace => true}),
    ok = beamscope:end_span(Ctx, Span);
span("class") ->
    {_, Span} = beamscope:start_span(<<"a">>),
    ok = beamscope:fail_span(Span, {bad, [term], #{a => 1.5}, <<"text">>, "text", self()});
span("deciding") ->
    Self = self(),
    spawn_link(fun() ->
                       true = register(beamscope_facilities, self()),
                       Self ! decides,
                       receive never -> ok end
               end),
    receive decides -> ok end,
    span("token"),
    undecided = persistent_term:get(beamscope_facilities_5, undecided);
span("exception") ->
    try beamscope:with_span(<<"a">>, fun() -> error({bad, [term]}) end) catch error:{bad, _} -> ok end.
