"""Attacks that link packages with the device that sent them: by its dice, times, weights, hash or bytes."""
