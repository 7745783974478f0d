"""Rigs that several experiments use: honest and lying parties with their public history, PostgreSQL, browsers."""
