"""The operator's page: what a coordinator publishes, live, in a browser; changes only by whoever has the admin key."""
