"""What a coordinator signs and publishes: experiment, manifests and endings, and the models and tallies they name."""
