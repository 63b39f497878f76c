%% What this VM offers a span, as beamscope_facilities decided it. The only
%% thing ever looked up on the way through start_span, hence in line.
-define(FACILITIES_KEY, beamscope_facilities).
-define(FACILITIES, persistent_term:get(?FACILITIES_KEY, undecided)).
