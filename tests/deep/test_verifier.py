"""The stranger's verifier in a browser, and at sizes at which somebody would wait for it."""

import random
import time
from fractions import Fraction
from pathlib import Path

import pytest

from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.cover_law import Noise, RelayCover
from secvm.learning.experiment import Experiment
from secvm.learning.thinning import Thinning
from secvm.protocol.canonical import digest_of
from secvm_lab.rigs.browser import PHONE, Browser
from secvm_lab.rigs.histories.audited_history import AuditedHistory, draw_told
from secvm_lab.rigs.histories.relayed_rounds import relayed_document, relayed_experiment
from tests.seeds import seed_for
from tests.serving import Answer, serving
from tests.system.verifying import PROGRAM, verify
from tests.unit.auditor.histories import history, lay_out

#: Far more than it takes on a machine that does nothing else.
MOST_S = 300


def sealed(name: str, rounds: int, packages: int = 160) -> AuditedHistory:
    """Rounds with so many packages of cover of each relay, to the end."""
    cover = RelayCover(
        train=Noise(cells=22, shape=Fraction(3), odds=Fraction(1, 2)),
        participation=Noise(cells=4, shape=Fraction(3), odds=Fraction(1, 2)),
        test=Noise(cells=4, shape=Fraction(3), odds=Fraction(2, 3)),
        parts=4,
        packages=packages,
        train_share=Fraction(7, 10),
    )
    dice = random.Random(seed_for(name))
    made = AuditedHistory(name, relayed_document(experiment=relayed_experiment(cover=cover)))
    for _ in range(rounds):
        made.announce(sealed=True, clients=8, told=draw_told(dice, made.document, 8))
        made.conclude()
    made.end()
    return made


@pytest.mark.parametrize("dark", [False, True])
def test_page_shows_the_digest_of_a_folder_and_the_fault_of_a_spoilt_one(tmp_path: Path, *, dark: bool) -> None:
    made = sealed("in a browser", 2)
    folder = lay_out(made.files, tmp_path / "public")
    with Browser() as browser, browser.window(dark=dark, size=PHONE) as window:
        page = window.page
        page.goto(PROGRAM.with_name("verify.html").as_uri())
        assert window.accessibility() == []
        page.set_input_files("#folder", folder)
        page.wait_for_selector("#result.ok")
        assert page.text_content("#digest") == made.model.names[2] == verify(folder)[1]["digest"]
        assert page.locator("#rounds tr").count() == 2
        assert page.locator("#unchecked li").count() > 0
        assert window.accessibility() == []
        path = folder / made.place.strip("/") / "capsules/2/0"
        path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])
        page.set_input_files("#folder", folder)
        page.wait_for_selector("#result.failed")
        assert (page.text_content("#verdict") or "").startswith("round 2: ")
        assert page.text_content("#digest") == ""
        assert window.faults() == []


def test_page_beside_a_coordinators_files_verifies_by_address() -> None:
    made = sealed("by address", 1)
    beside = {f"/verifier/{path.name}": path.read_bytes() for path in PROGRAM.parent.glob("*.*")}
    with serving() as server, Browser() as browser, browser.window() as window:
        files = {**made.files, **beside}
        kinds = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8"}

        def answer(path: str) -> Answer:
            if path not in files:
                return 404, {}, b""
            return 200, {"content-type": kinds.get(Path(path).suffix, "application/octet-stream")}, files[path]

        server.answer = answer
        window.page.goto(f"{server.url}/verifier/verify.html")
        window.page.fill("#url", server.url)
        window.page.click("button")
        window.page.wait_for_selector("#result.ok")
        assert window.page.text_content("#digest") == made.model.names[2]
        assert window.strangers == []


@pytest.mark.parametrize("rule", [Swift(), Pegasos()])
def test_thirty_plain_rounds_of_ten_thousand_bins_are_replayed(
    rule: Swift | Pegasos, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    thinning = Thinning(rho=Fraction(3)) if isinstance(rule, Swift) else Thinning()
    asked = Experiment(n_bins=10_000, labels=("a", "b"), rule=rule, thinning=thinning, budget=20)
    made = history(seed_for("ten thousand bins"), rounds=30, end=True, experiment=asked)
    folder, began = lay_out(made.files, tmp_path), time.monotonic()
    code, said = verify(folder)
    seconds = time.monotonic() - began
    assert (code, said["rounds"]) == (0, 30)
    assert said["digest"] == digest_of(made.weights(made.state)[1].to_bytes())
    assert seconds < MOST_S
    with capsys.disabled():
        print(f"\n{type(rule).__name__}: {said['replayed']} steps of 10,000 bins in {seconds:.1f} s")


@pytest.mark.takes(minutes=4)
def test_a_hundred_thousand_packages_are_counted_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = sealed("many packages", 3, packages=17_000)
    folder, began = lay_out(made.files, tmp_path), time.monotonic()
    code, said = verify(folder)
    seconds = time.monotonic() - began
    assert (code, said["digest"]) == (0, made.model.names[2])
    assert said["recounted"] >= 100_000
    assert seconds < MOST_S
    with capsys.disabled():
        print(f"\n{said['recounted']:,} packages of 3 rounds in {seconds:.1f} s")
