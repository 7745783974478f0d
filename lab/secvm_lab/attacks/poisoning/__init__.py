"""Attacks on the model itself: devices that send what no honest device would send."""
