"""The real parties on simulated machines: devices, relays, nodes of a coordinator and witnesses."""
