"""Statements: what taking part in an experiment tells about a person, in numbers and in words."""
