"""Sees one person: the device and the offline estimator, and nobody else."""
