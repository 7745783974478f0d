"""A population of devices over days: who is there when, and the rounds that come of it, as a deployment counts them."""
