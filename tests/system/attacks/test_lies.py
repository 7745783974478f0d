"""Every lie that a coordinator can tell is caught before a package leaves, but one; and honest ones are believed.

``secvm dev trials`` runs a thousand of each; here is a sample. Lies in experiments with two relays are told to Python's
device and to the browser's.
"""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest

from secvm.auditor.audit import audit_files
from secvm.auditor.files import GivenFiles
from secvm.protocol.evidence.plain import examine
from secvm_lab.rigs.lies.about_shards import COUNT_LIES
from secvm_lab.rigs.lies.catalogue import LIES, Lie
from secvm_lab.rigs.lies.heard.catalogue import HEARD_LIES
from secvm_lab.rigs.lies.heard.listeners import BrowserDevices, Devices, PythonDevices
from secvm_lab.trials import FOUND, HONEST, HONEST_COUNT, HONEST_HEARD, UNSEEN, run
from tests.effort import scaled
from tests.seeds import seed_for

TRIALS, COUNT_TRIALS = scaled(2, 50), scaled(2, 200)
HEARD_TRIALS, HONEST_TRIALS = scaled(1, 100), scaled(4, 200)
SEED = str(seed_for("lies"))
#: Lies that leave something which convinces others, always.
CONVICTING = {
    "wrong-lambda",
    "wrong-normaliser",
    "wrong-class-weight",
    "first-state-not-zero",
    "weights-not-of-the-state",
}
#: Lies of which who told them has signed all that it takes: an auditor has evidence of them, always.
PROVABLE = CONVICTING | {"several-gateway-keys", "relay-count-withheld", "logged-twice"}


@pytest.mark.parametrize("lie", [lie for lie in LIES.values() if lie.detected], ids=lambda lie: lie.name)
def test_a_lie_is_caught_every_time(lie: Lie) -> None:
    count = run([lie.name], trials=TRIALS, seed=SEED)[lie.name]
    assert (count.caught, count.deviating) == (TRIALS, [])
    if lie.visible_from_outside:
        assert count.audit == Counter({FOUND: TRIALS})
    if lie.name in CONVICTING:
        assert count.by == Counter({"evidence: wrong-step": TRIALS})


@pytest.mark.parametrize("name", sorted(PROVABLE))
def test_an_auditor_has_evidence_of_a_lie_that_was_signed(name: str) -> None:
    for number in range(TRIALS):
        _, told = LIES[name].told(random.Random(f"{SEED} {name} {number}"))
        report = audit_files(GivenFiles(told.public), now=told.now, experiment=told.joined)
        assert report.evidence, told.variant
        assert all(examine(data).sentence for data in report.evidence)


def test_a_forged_tally_within_the_budget_is_not_detected() -> None:
    count = run(["forged-tally"], trials=TRIALS, seed=SEED)["forged-tally"]
    assert count.caught == 0
    assert count.audit == Counter({UNSEEN: TRIALS})


@pytest.mark.takes(minutes=scaled(0, 2))
@pytest.mark.parametrize(("name", "trials"), [(HONEST, TRIALS), (HONEST_COUNT, COUNT_TRIALS)])
def test_nobody_refuses_an_honest_run(name: str, trials: int) -> None:
    count = run([name], trials=trials, seed=SEED)[name]
    assert (count.trials, count.caught, count.deviating) == (trials, 0, [])


@pytest.mark.takes(minutes=scaled(0, 2))
@pytest.mark.parametrize("name", COUNT_LIES)
def test_a_lie_about_a_count_is_seen_by_whoever_counts_again(name: str) -> None:
    count = run([name], trials=COUNT_TRIALS, seed=SEED)[name]
    assert (count.caught, count.deviating) == (COUNT_TRIALS, [])
    assert count.audit == Counter({FOUND: COUNT_TRIALS})
    assert count.device == Counter({COUNT_LIES[name].device: COUNT_TRIALS})


@pytest.fixture(scope="module", params=[PythonDevices, BrowserDevices], ids=["python", "browser"])
def devices(request: pytest.FixtureRequest) -> Iterator[Devices]:
    with closing(request.param()) as opened:
        yield opened


@pytest.mark.takes(minutes=scaled(0, 2))
@pytest.mark.parametrize("name", HEARD_LIES)
def test_a_device_that_hears_a_lie_sends_nothing_and_says_why(name: str, devices: Devices) -> None:
    count = run([name], trials=HEARD_TRIALS, seed=SEED, devices=devices)[name]
    assert (count.caught, count.deviating) == (HEARD_TRIALS, []), count


@pytest.mark.takes(minutes=scaled(0, 2))
def test_a_device_that_hears_the_truth_sends_one_request_a_round(devices: Devices) -> None:
    count = run([HONEST_HEARD], trials=HONEST_TRIALS, seed=SEED, devices=devices)[HONEST_HEARD]
    assert (count.caught, count.deviating) == (0, []), count


@pytest.mark.parametrize("name", COUNT_LIES)
def test_the_browser_sees_of_a_count_what_python_sees(name: str, devices: Devices) -> None:
    for number in range(COUNT_TRIALS):
        scene = COUNT_LIES[name].told(random.Random(f"{SEED} {name} {number}"))
        assert devices.recount(scene) == COUNT_LIES[name].device
