"""kill -9 for everybody, again and again: nothing acknowledged is lost, nothing counts twice, the same bytes come out.

Coordinator, relay and hosts are real processes over loopback. The clock is steered: a window closes when every scheduled
package is acknowledged, so the result must be that of the undisturbed run, byte for byte.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from secvm.lab.demo.crowd import Crowd, binned, made_up, who_trains
from secvm.lab.demo.plan import FLOOR, TRAIN_SHARE, Plan
from secvm.lab.demo.replay import Replay
from secvm.estimator.fitting import Evaluator
from secvm.estimator.training import Population
from secvm.learning.individual.binning import HashBinning
from secvm.testing.federation import Federation, HostOf, Pace
from secvm.testing.kills import Kills
