"""What real beacons said, for tests: the values of vectors/recorded_beacons.json."""

import json
from pathlib import Path
from typing import Any

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).resolve().parents[3] / "vectors/recorded_beacons.json").read_text(encoding="utf-8")
)
NIST, DRAND = "nist-2.0-chain-1", "drand-quicknet"
PULSE, ROUND = 54_610, 657_413
SERVED_PULSE = json.dumps(RECORDED["nist"]["served"]).encode()
CERTIFICATE = RECORDED["nist"]["certificate"].encode()
NIST_RECORD = SERVED_PULSE + b"\n" + CERTIFICATE
DRAND_RECORD = json.dumps(RECORDED["drand"]["served"]).encode()
OUTPUT = bytes.fromhex(RECORDED["nist"]["served"]["pulse"]["outputValue"])
RANDOMNESS = bytes.fromhex(RECORDED["drand"]["served"]["randomness"])
