"""What every party's shell stands on: clock, HTTP, files, settings, logs, metrics. It knows no learning."""
