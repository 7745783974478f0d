"""Many nodes of one coordinator on one database: which of them drives, and what the others show meanwhile."""
