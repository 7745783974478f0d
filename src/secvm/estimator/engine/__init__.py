"""Many trainings at once over the same people, exact and fast.

    engine = Engine(rows, labels, experiments, train=masks, threads=2)
    for _ in range(100):
        engine.advance()
        print(engine.cells())             # confusion of the people each model does not train on
    engine.state(3).to_bytes()            # the bytes of OfflineTraining for that model alone
"""

from secvm.estimator.engine.engine import Engine, EngineReport
from secvm.estimator.engine.lane import LANES

__all__ = ["LANES", "Engine", "EngineReport"]
