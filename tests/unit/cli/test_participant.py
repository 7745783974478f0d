"""``secvm participant``: a yes to one digest, plain words, and nothing of the person on the terminal."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from secvm.cli.participant.joining import agrees
from secvm.crypto.signing import sign
from secvm.participant.person import pinning
from secvm.participant.person.disclosure import in_short, what_leaves
from secvm.participant.storage.state import DeviceState, Status
from secvm.participant.storage.vault import Vault
from secvm.protocol.canonical import digest_of, encode_document
from secvm.protocol.documents.experiment import FeaturesWanted
from secvm.protocol.version import EXPERIMENT_TYPE
from tests.program import Program
from tests.unit.participant.world import BUDGET, FEATURES, RELAY_URLS, SECRET, World
from tests.unit.protocol.helpers import COORDINATOR, document


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A device's settings beside it, and a network in memory."""
    world = World(tmp_path)
    world.fill()
    config(world).write_text(
        f'[device]\nfolder = "{world.folder}"\n[relay]\nurls = {json.dumps(RELAY_URLS)}\n'
        '[trust]\nwithout_log = true\n[consent]\npolicy = "unsafe-accept-anything"\n'
    )
    monkeypatch.setattr("secvm.participant.main.make_transport", lambda *_: world.net)
    return world


@pytest.fixture
def typed(world: World, secvm: Program) -> Program:
    """Commands of this device; none repeats what only its person has."""
    secvm.before, secvm.after, secvm.secrets = ("participant",), ("--config", config(world)), (SECRET,)
    return secvm


def config(world: World) -> Path:
    return world.folder.with_name("device.toml")


def status(world: World) -> Status | None:
    state = DeviceState(world.folder)
    record = state.record(world.of.digest)
    state.close()
    return None if record is None else record.status


def test_join_pause_resume_forget(world: World, typed: Program) -> None:
    digest = world.of.digest
    for words, expected in (
        (f"join {digest} --yes", Status.JOINED),
        (f"pause {digest}", Status.PAUSED),
        (f"resume {digest}", Status.JOINED),
        (f"forget {digest} --yes", Status.FORGOTTEN),
    ):
        assert typed(words) == 0
        assert status(world) is expected
        assert SECRET not in typed.said
    with Vault(world.folder) as vault:
        assert vault.label(digest) is None
        assert vault.features("words").value == FEATURES
    for words in (f"join {digest} --yes", f"resume {digest}"):
        assert typed(words) == 2
        assert SECRET not in typed.said


def test_a_prediction_is_a_label_and_the_round_of_its_model(
    world: World, typed: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest, found = world.of.digest, pinning.Prediction(label="owl", margin=304.642, rounds=5)
    assert typed(f"join {digest} --yes") == 0
    monkeypatch.setattr(pinning, "predict_for", lambda *_args, **_more: found)
    assert typed(f"predict {digest}") == 0
    assert typed.out == "owl, by the model after round 5\n"
    assert typed.json(f"predict {digest}") == {"label": "owl", "margin": 304.642, "round": 5}


def test_every_decision_can_be_had_as_json_and_once_joined_the_first_digits_name_it(
    world: World, typed: Program
) -> None:
    digest = world.of.digest
    assert typed.json(f"join {digest} --yes", quiet=False) == {"joined": True}
    assert typed.json(f"pause {digest[:6]}") == {"experiment": digest, "status": "paused"}
    other = "0000" if not digest.startswith("0000") else "1111"
    for wrong in (other, digest[:3], digest.upper()):
        typed.refused(f"resume {wrong}")
    assert status(world) is Status.PAUSED
    for act, expected in (("resume", "joined"), ("forget --yes", "forgotten")):
        assert typed.json(f"{act} {digest}") == {"experiment": digest, "status": expected}


def test_experiment_without_a_log_is_joined_only_where_the_settings_say_so(world: World, typed: Program) -> None:
    config(world).write_text(config(world).read_text().replace("without_log = true", ""))
    assert typed(f"join {world.of.digest} --yes") == 2
    assert "without_log = true" in typed.err
    assert status(world) is None


def test_where_nobody_can_answer_join_says_how_to_agree(
    world: World, typed: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert typed(f"join {world.of.digest}") == 2
    assert "--yes" in typed.err
    assert status(world) is None


def test_join_shows_what_it_means_and_takes_no_for_an_answer(
    world: World, typed: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("d\nno\n"))
    assert typed(f"join {world.of.digest}") == 0
    assert status(world) is Status.DECLINED
    for said in (
        world.of.title,
        f"exactly {BUDGET} sealed packages",
        "There is no formal guarantee",
        "nobody has to work together",
        "chooses the weights, by making tallies up, can tell your answer for certain",
    ):
        assert said in typed.err
    assert "Nothing was sent" in typed.said
    monkeypatch.setattr("sys.stdin", io.StringIO("perhaps\ny\n"))
    assert typed(f"join {world.of.digest}") == 0
    assert status(world) is Status.JOINED


def test_repro_experiment_whose_text_repaints_the_consent_screen_is_refused_before_it_is_shown(
    world: World, typed: Program
) -> None:
    content = json.loads(world.of.data) | {"question": "Tea?\x1b[2J\x1b[H Nobody can learn your answer."}
    data = encode_document(content)
    digest = digest_of(data)
    world.net.files[f"/v1/experiment/{digest}"] = sign(data, purpose=EXPERIMENT_TYPE, keys=[COORDINATOR])
    assert typed(f"join {digest}") == 2
    assert "question of the experiment has U+001B as character 5" in typed.said
    assert "Nobody can learn" not in typed.said


def test_repro_consent_screen_changes_no_terminal_whatever_it_is_given(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("d\nn\n"))
    evil = "\x1b[2J\x1b[H\x9b8m\u202e"
    of = document(
        title=f"title{evil}",
        question=f"question{evil}",
        experiment=replace(document().experiment, labels=(f"a{evil}", "b")),
        features=FeaturesWanted(source="words", description=f"description{evil}"),
    )
    assert not agrees(of, in_short(of), what_leaves(of))
    shown = capsys.readouterr().err
    for text in ("title", "question", "(a", "description"):
        assert f"{text}?[2J?[H?8m?" in shown
    assert not {"\x1b", "\x9b", "\u202e"} & set(shown)


def test_join_refuses_what_is_not_the_experiment_that_was_named(world: World, typed: Program) -> None:
    other, files = "0" * 64, world.net.files
    assert "nobody answers" in typed.refused(f"join {other} --yes")
    files["/v1/experiments"] = b"{}"
    assert "knows none of this digest" in typed.refused(f"join {other} --yes")
    files[f"/v1/experiment/{other}"] = files[f"/v1/experiment/{world.of.digest}"]
    assert "another experiment" in typed.refused(f"join {other} --yes")
    assert "64 hexadecimal digits" in typed.refused("join 'a word' --yes")
    assert status(world) is None


@pytest.mark.parametrize("answer", [None, "neither"])
def test_whoever_has_not_answered_yet_is_told_the_labels(world: World, typed: Program, answer: str | None) -> None:
    with Vault(world.folder) as vault:
        vault.forget_label(world.of.digest)
        if answer is not None:
            vault.set_label(world.of.digest, answer)
    assert typed(f"join {world.of.digest} --yes") == 2
    assert f"whose labels are: {', '.join(world.of.experiment.labels)}" in typed.err
    assert f"secvm participant label {world.of.digest}" in typed.err
    assert "neither" not in typed.err


def test_inspect_tells_in_words_and_as_json(world: World, typed: Program) -> None:
    assert typed("inspect") == 0
    assert typed.out == "You have joined nothing yet.\n"
    assert "joined nothing yet" in typed.refused(f"pause {world.of.digest}")
    assert typed(f"join {world.of.digest} --yes") == 0
    assert "no model" in typed.refused(f"predict {world.of.digest}")
    assert typed("inspect") == 0
    for words in (world.of.title, "Nothing waits to be sent.", "It does not run now"):
        assert words in typed.out
    assert SECRET not in typed.out
    assert typed.json("inspect")[world.of.digest]["status"] == "joined"
    assert SECRET not in typed.out
    # The folder alone will do, and both are too much.
    assert "exclude each other" in typed.refused("inspect --folder", world.folder)
    typed.after = ()
    assert typed("inspect --folder", world.folder) == 0
    typed.refused("inspect --folder", world.folder / "nowhere")


def test_join_refuses_what_tells_too_much_and_says_how_to_accept_it(world: World, typed: Program) -> None:
    config(world).write_text(
        config(world).read_text().replace('policy = "unsafe-accept-anything"', "most_rounds = 1000")
    )
    assert typed(f"join {world.of.digest} --yes") == 2
    assert "no formal guarantee" in typed.err
    assert "--accept-leakage 1.000" in typed.err
    assert status(world) is None
    assert typed(f"join {world.of.digest} --yes --accept-leakage 1") == 0
    assert status(world) is Status.JOINED
    found = typed.json("inspect")
    assert found["ledger"]["experiments"] == []
    assert found[world.of.digest]["statement"]["formal"] is False
