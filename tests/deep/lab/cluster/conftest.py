"""The cluster of ``tests/system/lab/cluster``, for tests that kill its workers."""

from tests.system.lab.cluster.test_cluster_sweep import alone, client, cluster, watched

__all__ = ["alone", "client", "cluster", "watched"]
