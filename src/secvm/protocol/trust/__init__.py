"""What a device believes of the bytes that it is served: the log, and one round after the other."""
