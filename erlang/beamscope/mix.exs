defmodule Beamscope.MixProject do
  # The application is src/beamscope.app.src for rebar3, and this for mix: a test compares the
  # two. With this file mix needs no rebar3.
  use Mix.Project

  def project do
    [
      app: :beamscope,
      version: "0.1.0",
      description: "Spans for the beamscope oscilloscope",
      language: :erlang,
      erlc_options: [:debug_info, :warnings_as_errors, :warn_missing_spec],
      deps: []
    ]
  end

  def application do
    [
      applications: [:kernel, :stdlib, :runtime_tools, :opentelemetry_api],
      optional_applications: [:runtime_tools, :opentelemetry_api],
      env: [seq_trace: false, carrier: :auto]
    ]
  end
end
