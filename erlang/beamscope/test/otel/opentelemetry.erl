%%% Stands in for the API of OpenTelemetry.
-module(opentelemetry).
-export([get_application_tracer/1]).

get_application_tracer(beamscope_otel) -> {tracer, stub}.
