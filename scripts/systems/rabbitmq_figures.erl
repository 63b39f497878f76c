%%% @doc What those who put load on a RabbitMQ have in common: how long, how fast,
%%% and what came of it.
-module(rabbitmq_figures).

-export([until/2, interval/2, over/3, quantiles/1]).

-export_type([until/0]).

-type until() :: {time, Native :: pos_integer()} | {count, pos_integer()}.

%% @doc When a publisher ends: "20s" after a time, "20000" after its share of so many
%% messages.
-spec until(string(), Publishers :: pos_integer()) -> {ok, until()} | error.
until(Text, Publishers) ->
    case string:to_integer(Text) of
        {N, "s"} when N > 0 -> {ok, {time, erlang:convert_time_unit(N, second, native)}};
        {N, ""} when N > 0 -> {ok, {count, (N + Publishers - 1) div Publishers}};
        _ -> error
    end.

%% @doc The time from one message of a publisher to its next, native, where so many
%% of them publish so many a second together; 0 for as fast as they can.
-spec interval(Rate :: string(), Publishers :: pos_integer()) -> {ok, non_neg_integer()} | error.
interval(Rate, Publishers) ->
    case string:to_integer(Rate) of
        {0, ""} -> {ok, 0};
        {N, ""} when N > 0 -> {ok, erlang:convert_time_unit(Publishers, second, native) div N};
        _ -> error
    end.

%% @doc Has one that began at Start and has published Sent messages reached the end?
-spec over(until(), Start :: integer(), Sent :: non_neg_integer()) -> boolean().
over({time, Time}, Start, _) -> erlang:monotonic_time() - Start >= Time;
over({count, Count}, _, Sent) -> Sent >= Count.

%% @doc Quantiles of native times, as a text.
-spec quantiles([integer()]) -> iodata().
quantiles([]) -> "nothing";
quantiles(Unsorted) ->
    Delays = list_to_tuple(lists:sort(Unsorted)),
    Of = fun(Q) ->
        Delay = element(max(1, ceil(Q * tuple_size(Delays))), Delays),
        erlang:convert_time_unit(Delay, native, microsecond) / 1000
    end,
    io_lib:format("p50 ~.2fms  p99 ~.2fms  p99.9 ~.2fms", [Of(0.5), Of(0.99), Of(0.999)]).
