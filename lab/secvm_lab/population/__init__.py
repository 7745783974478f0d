"""People who do not exist, made by seeded generators."""
