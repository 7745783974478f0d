"""Memory of a process that has one of Python's devices and waits: for ``browser``."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks._measuring import memory_mb


def memory() -> float:
    """Of a process that has none."""
    return memory_mb("VmRSS")


def memory_with(folder: str) -> float:
    """Of one that has opened the device of this folder."""
    # Only here: a process that has none does without.
    from secvm.participant.consent.policies import Consent
    from secvm.participant.device import Device
    from secvm.participant.storage.state import DeviceState
    from secvm.participant.trust.trust_policy import TrustPolicy
    from secvm.testing.transport import MemoryTransport

    state, now = DeviceState(Path(folder)), 0
    policy, consent = TrustPolicy(), Consent.unsafe_accept_anything()
    net = MemoryTransport(lambda: now)
    device = Device(state, net, now=lambda: now, random_bytes=os.urandom, policy=policy, consent=consent)
    device.look()
    found = memory_mb("VmRSS")
    device.close()
    return found
