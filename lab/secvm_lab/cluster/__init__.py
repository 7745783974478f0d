"""The same sweep on many machines: ``sweep.ClusterSweep`` has the shape of ``engine.sweep``, and its results.

It runs on dask.distributed (the extra ``dask``), whose workers do whatever their scheduler says: for machines of one
owner who holds all the data anyway. Nothing of the federation comes here. docs/results/many-machines.md tells how.

    with ClusterSweep("tls://10.0.0.5:8786") as sweep:
        for swept in sweep(rows, labels, experiments, train=masks, rounds=100, threads=8):
            print(swept.model, swept.accuracy[-1])
"""
