"""From specifications to experiments: defaults that are computed, and refusals in one sentence."""

import json
import math
import tomllib
from fractions import Fraction
from typing import Any

import pytest

from secvm.coordinator.epochs import Grid
from secvm.coordinator.experiments.new_experiment import SALT_NOTE, NewestPulse, OwnSettings, make_document
from secvm.coordinator.experiments.specification import EarlyStopping, Specification
from secvm.errors import BadExperimentError, BadInputError
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.experiment import Robust
from secvm.learning.thinning import Thinning
from secvm.protocol.documents.experiment import Beacon, ExperimentDocument, HashedBins, Relay, VocabularyBins
from secvm.protocol.log.policy import LogTerms
from secvm.runtime.settings import parse_settings
from tests.unit.protocol.helpers import COORDINATOR, RELAY, START, log_terms

GRID = Grid(period_s=3600, lead_s=300)
SMALLEST = """
title = "Which words tell a from b?"
operator = "Uni"
contact = "study@uni.example"
purpose = "To see whether words tell."
labels = ["a", "b"]
floor = 100
privacy = "none"

[features]
source = "history-titles"
per_participant = 100

[binning]
bins = 1000

[windows]
length_s = 3000
grace_s = 60

[[relays]]
url = "https://relay.example/"
key = "%s"
"""


def put(path: str, value: object) -> dict[str, Any]:
    content: dict[str, Any] = tomllib.loads(SMALLEST % RELAY.public.data.hex())
    inner = content
    *outer, name = path.split(".")
    for step in outer:
        inner = inner.setdefault(step, {})
    if value is None:
        del inner[name]
    else:
        inner[name] = value
    return content


def asked(*changes: tuple[str, object]) -> tuple[ExperimentDocument, OwnSettings]:
    content: dict[str, Any] = put("title", "A question")
    for path, value in changes:
        changed = put(path, value)
        top = path.partition(".")[0]
        content[top] = {**content.get(top, {}), **changed[top]} if isinstance(changed.get(top), dict) else changed[top]
    return asked_in(content)


def asked_in(content: dict[str, Any], **more: Any) -> tuple[ExperimentDocument, OwnSettings]:
    told = parse_settings(json.dumps(content), Specification, "the specification")
    return make_document(told, key=COORDINATOR.public, grid=GRID, dice=lambda n: bytes(range(n)), now=START, **more)


def test_only_a_test_may_leave_out_who_asks() -> None:
    for name in ("operator", "contact", "purpose"):
        with pytest.raises(BadExperimentError, match=f"give {name}; only"):
            asked((name, " "))
        assert getattr(asked((name, ""), ("test", True))[0], name) == ""
    made, _ = asked()
    assert (made.operator, made.contact, made.purpose) == ("Uni", "study@uni.example", "To see whether words tell.")


def test_the_smallest_specification_gets_the_defaults() -> None:
    document, own = asked()
    experiment = document.experiment
    assert ExperimentDocument.from_bytes(document.data) == document
    assert isinstance(experiment.rule, Swift)
    assert experiment.thinning == Thinning(rho=Fraction(3))
    assert document.binning == HashedBins(bins=1000, hashes=1, salt=bytes(range(16)))
    assert document.gateway_note == SALT_NOTE
    assert (document.train_share, document.rounds) == (Fraction(7, 10), 30)
    assert document.relays == (Relay("https://relay.example/", RELAY.public),)
    assert document.windows.first_opening == START
    assert asked(("windows.first_opening_s", 90))[0].windows.first_opening == START + 90_000
    assert own == OwnSettings()


def test_the_floor_of_the_popularity_can_be_chosen_for_swift_alone() -> None:
    assert asked(("descent.floor", "9/8"))[0].experiment.rule == Swift(floor=Fraction(9, 8))
    with pytest.raises(BadInputError, match="floor belongs to swift"):
        asked(("descent.rule", "pegasos"), ("descent.floor", 1))


def test_bins_are_clipped_and_rounds_trimmed_where_the_specification_says_so() -> None:
    document, _ = asked(("robust.clip", "1/4"), ("robust.trim", 3))
    assert document.experiment.robust == Robust(clip=Fraction(1, 4), trim=3)
    assert ExperimentDocument.from_bytes(document.data) == document
    plain, _ = asked()
    assert plain.experiment.robust is None
    assert document.state_bytes == plain.state_bytes // 5 * 7
    with pytest.raises(BadInputError, match="odd"):
        asked(("robust.trim", 2))


def test_the_default_budget_is_the_mean_of_a_full_person_and_four_deviations() -> None:
    mean = 3 * math.sqrt(101)
    assert asked()[0].budget == math.ceil(mean + 4 * math.sqrt(mean)) + 1 == 54
    pegasos = ("descent.rule", "pegasos")
    assert asked(pegasos)[0].budget == 102
    assert asked(pegasos, ("descent.thinning", "q=1/10"))[0].budget == math.ceil(10.1 + 4 * math.sqrt(10.1)) + 1
    assert asked(pegasos, ("binning.hashes", 2))[0].budget == 202
    assert asked(pegasos, ("labels", ["a", "b", "c"]))[0].budget == 3 * 101 + 1
    assert asked(pegasos, ("labels", ["a", "b", "c"]), ("multiclass", "ovo"))[0].budget == 2 * 101 + 1
    assert asked(("budget", 77))[0].budget == 77
    # Swift never sends more than there is.
    assert asked(("features.per_participant", 4))[0].budget == 6
    assert asked(("features.presence", False))[0].budget == 54


def test_everything_that_can_be_said_arrives_in_the_document() -> None:
    document, own = asked(
        ("descent.rule", "pegasos"),
        ("descent.lambda", 0.001),
        ("descent.averaging", 4),
        ("descent.step_cap", "1/10"),
        ("class_weights", {"b": 2.5}),
        ("loss", "squared-hinge"),
        ("loss_parameter", 4),
        ("binning.vocabulary", "ab" * 32),
        ("windows.hours", [[7, 22]]),
        ("windows.time_zone", "Europe/Berlin"),
        ("windows.first_opening", START + 5),
        ("early_stopping", {"patience": 5}),
        ("train_share", 0.6),
        ("rounds", 12),
        ("gateway_note", "Run by us."),
    )
    experiment = document.experiment
    assert experiment.rule == Pegasos(lambda_=Fraction(1, 1000), averaging=4, step_cap=Fraction(1, 10))
    assert experiment.class_weights == (Fraction(1), Fraction(5, 2))
    assert (experiment.loss.name, experiment.loss.parameter) == ("squared-hinge", Fraction(4))
    assert document.binning == VocabularyBins(bins=1000, digest="ab" * 32)
    assert (document.windows.hours, document.windows.time_zone) == (((7, 22),), "Europe/Berlin")
    assert (document.train_share, document.rounds) == (Fraction(3, 5), 12)
    # Nothing was drawn, so nothing is said about dice.
    assert document.gateway_note == "Run by us."
    assert own == OwnSettings(early_stopping=EarlyStopping(patience=5, at_least=20))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("title", None), "title is missing"),
        (("floor", "many"), "floor should be a valid integer"),
        (("windows.graze_s", 1), "windows.graze_s is not a setting"),
        (("labels", ["a"]), "labels has 1 of them, and a classifier tells two apart at least"),
        (("loss", "pinball"), "the loss pinball has a number as the label: labels names that one, and not 2"),
        (("people", 100), "floor is 100, and of 100 people about 70 train: no step would ever be taken"),
        (("labels", ["a", "a"]), "same name"),
        (("class_weights", {"c": 1}), "class_weights names a label"),
        (("features.per_participant", None), "give a budget, or features.per_participant"),
        (("windows.length_s", 3600), "window, grace and lead"),
        (("windows.time_zone", "Nowhere"), "time zone"),
        (("windows.hours", [[9, 8]]), "cannot be published: hours"),
        (("descent.thinning", "none"), "swift over devices needs thinning"),
        (("descent.thinning", "q=1/2"), "thinned by rho"),
        (("descent.lambda", 1), "lambda belongs to pegasos, not to swift"),
        (("descent.rule", "newton"), "unknown descent rule 'newton'; known are pegasos, swift"),
        (("relays", []), "lists no relay"),
        (("relays", [{"url": "https://relay.example/", "key": "ab"}]), "64 hexadecimal digits"),
        (("relays", [{"url": "https://relay.example/", "key": "00" * 32}]), "that only its owner can sign for"),
        (("relays", [{"url": "http://relay.example/", "key": "ab" * 32}]), "url"),
        (("train_share", "half"), "not a number"),
        (("train_share", 2), "train_share of"),
        (("budget", 1), "budget must be at least 2"),
        (("features.source", "My Source"), "source"),
    ],
)
def test_what_does_not_fit_is_told_in_one_sentence(change: tuple[str, object], sentence: str) -> None:
    with pytest.raises(BadInputError, match=sentence) as caught:
        asked_in(put(*change))
    assert "\n" not in str(caught.value)


def test_repro_the_operator_is_told_which_character_of_which_text_is_not_printable() -> None:
    for change, sentence in (
        (
            ("title", "tea\x1b[31m"),
            r"title of the experiment has U\+001B as character 4; a text is one line",
        ),
        (("labels", ["a", "\u202eb"]), r"name of label 2 of the experiment has U\+202E as character 1"),
        (("gateway_note", "one\ntwo"), r"gateway_note of the experiment has U\+000A as character 4"),
    ):
        with pytest.raises(BadExperimentError, match=sentence):
            asked_in(put(*change))


def test_numbers_as_labels_have_no_early_stopping() -> None:
    with pytest.raises(BadInputError, match="early stopping"):
        asked(("labels", ["age"]), ("loss", "epsilon-insensitive"), ("early_stopping", {}))


# ── log and beacons ──────────────────────────────────────────────────────────────────────────────────────────────────

NEXT = {"chain": "nist-2.0-chain-2", "round": 2_000_000}


def test_a_coordinator_with_a_log_puts_its_terms_into_the_experiment() -> None:
    document, _ = asked_in(put("title", "A question"), log=log_terms())
    assert document.log == log_terms()
    assert ExperimentDocument.from_bytes(document.data) == document


def test_beacons_take_the_place_of_the_salt_and_of_the_note_about_it() -> None:
    document, _ = asked_in(put("binning.beacons", [NEXT]), log=log_terms())
    assert document.binning == HashedBins(bins=1000, beacons=(Beacon("nist-2.0-chain-2", 2_000_000),))
    assert document.gateway_note == ""
    content = {**put("binning.beacon_delay_s", 900), "gateway_note": "Run by us."}
    document, _ = asked_in(content, log=log_terms(), newest=NewestPulse(10, START))
    assert isinstance(document.binning, HashedBins)
    assert [beacon.chain for beacon in document.binning.beacons] == ["drand-quicknet", "nist-2.0-chain-2"]
    assert (document.binning.salt, document.binning.beacons[1].round_number) == (None, 25)
    assert document.gateway_note == "Run by us."


def test_the_development_beacon_is_for_tests() -> None:
    local = [{"chain": "local-unsafe", "round": START // 1000 + 60}]
    with pytest.raises(BadInputError, match="for tests alone"):
        asked_in(put("binning.beacons", local), log=log_terms())
    document, _ = asked_in({**put("binning.beacons", local), "test": True}, log=log_terms())
    assert document.binning == HashedBins(bins=1000, beacons=(Beacon("local-unsafe", START // 1000 + 60),))


@pytest.mark.parametrize(
    ("binning", "log", "sentence"),
    [
        ({"beacons": [NEXT]}, None, "beacons need a log"),
        ({"beacons": [NEXT], "vocabulary": "ab" * 32}, log_terms(), "binning.salt and vocabulary have no place"),
        ({"beacons": [NEXT], "salt": "ab" * 16}, log_terms(), "binning.salt and vocabulary have no place"),
        ({"beacon_delay_s": 1}, log_terms(), "greater than or equal to 60"),
        ({"beacons": [{**NEXT, "round": 0}]}, log_terms(), "greater than or equal to 1"),
    ],
)
def test_beacons_that_cannot_be_are_refused_in_one_sentence(
    binning: dict[str, Any], log: LogTerms | None, sentence: str
) -> None:
    content = put("title", "A question")
    content["binning"].update(binning)
    with pytest.raises(BadInputError, match=sentence):
        asked_in(content, log=log)
