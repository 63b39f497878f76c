%% The facilities of this VM for spans, as decided by beamscope_facilities. This is the only lookup
%% in start_span, so it is a macro. The key contains the version of the ring's layout, because
%% modules of another version may be loaded into the running VM.
-define(FACILITIES_KEY, beamscope_facilities_5).
-define(FACILITIES, persistent_term:get(?FACILITIES_KEY, undecided)).
