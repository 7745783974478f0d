"""What parties keep on disk: SQLite files, secrets, locks, and commits in groups."""
