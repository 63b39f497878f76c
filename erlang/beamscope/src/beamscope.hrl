%% The facilities of this VM for spans, as decided by beamscope_facilities. This is the only lookup
%% in start_span, so it is a macro.
-define(FACILITIES_KEY, beamscope_facilities).
-define(FACILITIES, persistent_term:get(?FACILITIES_KEY, undecided)).
