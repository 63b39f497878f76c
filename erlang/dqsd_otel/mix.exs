defmodule DqsdOtel.MixProject do
  # The application is src/dqsd_otel.app.src for rebar3, and this for mix: a test compares the
  # two. With this file mix needs no rebar3. Whoever depends on it depends on beamscope too.
  use Mix.Project

  def project do
    [
      app: :dqsd_otel,
      version: "0.1.0",
      description: "The API of the dqsd_otel wrapper, on top of beamscope",
      language: :erlang,
      erlc_options: [:debug_info, :warnings_as_errors, :warn_missing_spec],
      deps: []
    ]
  end

  def application do
    [applications: [:kernel, :stdlib, :beamscope]]
  end
end
