"""What every party's shell stands on: clock, HTTP server, configuration, logs, metrics. It knows no learning."""
