"""Beyond the paper's linear model, in the lab: a small network by packages, and several hashes for each feature."""
