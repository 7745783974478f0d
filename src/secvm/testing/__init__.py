"""Fakes that are part of the product: other people must be able to test against us too."""
