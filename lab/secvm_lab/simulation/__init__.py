"""A whole federation in one process, and lists of operations that happen to it.

    from secvm_lab.simulation import Simulation

    Simulation(way="round", rounds=2, seed=7).play([("until", "open"), ("crash", "relay", 3, 8), ("upload", 3)])

**Real** are all parts of every party: the coordinator's routes, gateway, ingest, opener, driver, publisher,
logbook and cosigner, election and admin API, several nodes on one store; the relay's doors, admission, modes, store and
deposits; the witnesses' doors, decision and store; the devices with consent, ledger, session, transport and all that
they check. **Made up** are time, dice, network and disks (``loop``, ``network``, ``disk``, ``database``), so that they
fail on demand, at any point, and always in the same way.

Operations are in ``operations``, what must hold in ``checks``.
"""

from secvm_lab.simulation.operations import KINDS, WEIGHTS, Op, draw, table
from secvm_lab.simulation.simulation import Simulation, SimulationError

__all__ = ["KINDS", "WEIGHTS", "Op", "Simulation", "SimulationError", "draw", "table"]
