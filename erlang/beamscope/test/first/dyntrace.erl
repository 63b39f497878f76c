%%% Stands in for the VM's dyntrace, with a listening collector. At each hit, it stores the loaded
%%% modules in the process dictionary. If a process is registered as gate, a decision of beamscope
%%% waits for it.
-module(dyntrace).
-export([available/0, pn/7]).

available() ->
    case whereis(gate) of
        undefined -> true;
        Gate ->
            Gate ! {deciding, self()},
            receive go -> true end
    end.

pn(_Label, _Id, Kind, _Version, _Parent, _Name, _Detail) ->
    put(hits, [{Kind, erlang:loaded()} | get(hits)]),
    true.
