"""The published experiment: everything in it, nothing beside it, one spelling."""

import json
import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto.signing import SigningKey
from secvm.errors import BadSignatureError, LocalProtocolError, MalformedMessageError
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.experiment import Experiment
from secvm.learning.losses import LOSSES, Loss
from secvm.learning.thinning import Thinning
from secvm.protocol.documents.experiment import (
    Beacon,
    ExperimentDocument,
    HashedBins,
    Relay,
    VocabularyBins,
    Windows,
    publish,
    read_published,
)
from secvm_lab.rigs.histories.relayed_rounds import relayed_document
from tests.unit.protocol.helpers import (
    COORDINATOR,
    LENGTH_S,
    LOG,
    RELAY,
    SECOND,
    START,
    STRANGER,
    changed,
    document,
    log_terms,
    paths,
)

RATIOS = st.fractions(min_value=Fraction(1, 1000), max_value=Fraction(999, 1000), max_denominator=1000)


@st.composite
def experiments(draw: st.DrawFn) -> Experiment:
    loss = Loss(draw(st.sampled_from(sorted(LOSSES))))
    n_labels = 1 if loss.regression else draw(st.integers(2, 5))
    swift = draw(st.booleans())
    weights = () if loss.regression else tuple(draw(st.lists(RATIOS, min_size=n_labels, max_size=n_labels)))
    return Experiment(
        n_bins=draw(st.integers(1, 2**24)),
        labels=tuple(f"label {i} ä" for i in range(n_labels)),
        rule=Swift(decay=draw(RATIOS)) if swift else Pegasos(lambda_=draw(RATIOS), averaging=draw(st.integers(1, 64))),
        loss=loss,
        thinning=Thinning(rho=draw(RATIOS)) if swift else Thinning(q=draw(st.none() | RATIOS)),
        class_weights=draw(st.sampled_from([(), weights])),
        multiclass=draw(st.sampled_from(["ovr", "ovo"])),
        features_per_person=draw(st.none() | st.integers(1, 1000)),
        budget=draw(st.integers(2, 2**16)),
        target_centre=draw(RATIOS),
        target_spread=draw(RATIOS),
    )


@given(
    experiment=experiments(),
    text=st.text(
        st.characters(exclude_categories=["Cc", "Cf", "Co", "Cs", "Zl", "Zp"], max_codepoint=0xDFFFF), max_size=50
    ),
    vocabulary=st.booleans(),
)
def test_every_experiment_comes_back_whole(experiment: Experiment, text: str, vocabulary: bool) -> None:
    bins = experiment.n_bins
    published = document(
        experiment=experiment,
        question=text,
        binning=VocabularyBins(bins=bins, digest="ab" * 32)
        if vocabulary
        else HashedBins(bins=bins, hashes=2, beacons=(Beacon("drand-quicknet", 7), Beacon("nist-2.0", 9))),
    )
    again = ExperimentDocument.from_bytes(published.data)
    assert again == published
    assert again.experiment == experiment
    assert again.digest == published.digest
    assert published.experiment_id == bytes.fromhex(published.digest)[:16]


PLAIN, LOGGED, RELAYED = document().data, document(log=log_terms()).data, relayed_document().data
#: Every field of a plain document with a log and of one with two relays.
EVERY = [(data, path) for data in (LOGGED, RELAYED) for path in paths(json.loads(data))]


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("title", "tea\x1b]0;pwned\x07", "title of the experiment has U+001B as character 4"),
        ("question", "Tea?\x1b[2J\x1b[H Nobody learns your answer.", "question of the experiment has U+001B"),
        ("question", "Tea?\n- This experiment has a formal guarantee.", "question of the experiment has U+000A"),
        ("gateway_note", "Run by \u202eus", "gateway_note of the experiment has U+202E as character 8"),
        ("features.description", "\u2066Words", "description of the experiment.features has U+2066 as character 1"),
        ("learning.labels", ["tea", "t\u200bea"], "name of label 2 of the experiment has U+200B as character 2"),
        ("learning.labels", ["tea", "\x9b8m"], "name of label 2 of the experiment has U+009B as character 1"),
    ],
)
def test_repro_texts_that_repaint_a_screen_or_look_like_others_are_refused(
    path: str, value: object, sentence: str
) -> None:
    with pytest.raises(MalformedMessageError, match=re.escape(sentence)):
        ExperimentDocument.from_bytes(changed(PLAIN, path, value))


@pytest.mark.parametrize(("data", "path"), EVERY, ids=lambda told: told if isinstance(told, str) else "")
def test_every_field_is_needed_and_has_its_type(data: bytes, path: str) -> None:
    for value in (KeyError, {}, {"x": 1}, [None], "", "x" * 5000, -1, 0, True):
        wrong = changed(data, path, value)
        if wrong == data:
            continue
        try:
            ExperimentDocument.from_bytes(wrong)
        except MalformedMessageError:
            continue
        # Some fields may be empty, or the other truth; a round may begin, and late packages be late, at once.
        empty = {("question", ""), ("gateway_note", ""), ("features.description", ""), ("test", True)}
        assert (path, value) in empty | {("windows.first_opening", 0), ("windows.grace_s", 0)}


@pytest.mark.parametrize("data", [LOGGED, RELAYED])
def test_left_over_fields_are_refused_at_every_depth(data: bytes) -> None:
    for path in {path.rpartition(".")[0] for path in paths(json.loads(data))}:
        with pytest.raises(MalformedMessageError):
            ExperimentDocument.from_bytes(changed(data, f"{path}.x".removeprefix("."), None))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("type", "secvm-v2-experiment"),
        ("privacy", {"kind": "cover"}),
        ("binning.salt", "00"),
        ("binning.kind", "vocabulary"),
        ("binning.bins", 2**24 + 1),
        ("binning.hashes", 17),
        ("coordinator_keys", ["00" * 31]),
        ("coordinator_keys", [COORDINATOR.public.data.hex()] * 2),
        ("relays", [{"key": RELAY.public.data.hex(), "url": "ftp://relay.example/"}]),
        ("relays", [{"key": RELAY.public.data.hex(), "url": "https://relay example/"}]),
        ("rounds", 0),
        ("rounds", 2**20),
        ("train_share", "0"),
        ("train_share", "2/1"),
        ("learning.budget", 1),
        ("learning.labels", ["a", "a"]),
        ("learning.labels", ["a", ""]),
        ("learning.class_weights", ["1", "2/2"]),
        ("learning.rule", {"constants": {"averaging": "2", "lambda": "2/20"}, "name": "pegasos"}),
        ("learning.rule", {"constants": {"averaging": "2", "lambda": "x"}, "name": "pegasos"}),
        ("learning.loss", {"name": "pinball", "parameter": None}),
        ("windows.hours", [[8, 25]]),
        ("windows.hours", [[8, 8]]),
        ("windows.hours", [[8, 12], [12, 14]]),
        ("windows.hours", [8, 12]),
        ("windows.time_zone", "Europe/Berlin/../.."),
        ("features.source", "Words of mine"),
    ],
)
def test_what_contradicts_itself_is_refused(path: str, value: object) -> None:
    with pytest.raises(MalformedMessageError):
        ExperimentDocument.from_bytes(changed(PLAIN, path, value))


@pytest.mark.parametrize(
    "changes",
    [
        {"experiment": Experiment(n_bins=10, labels=("a", "b"), rule=Pegasos())},
        {"experiment": Experiment(n_bins=10, labels=("a", "b"), rule=Swift(), fixed_point_rows=True)},
        {"binning": HashedBins(bins=11, salt=bytes(16))},
        {"binning": HashedBins(bins=10)},
        {"title": ""},
        {"windows": Windows(length_s=0, grace_s=0, first_opening=START)},
        {"relays": (Relay(url="http://x", key=RELAY.public),)},
        {"threshold": 2},
        {"train_share": Fraction(1, 10**90)},
    ],
)
def test_what_a_reader_would_refuse_cannot_be_published(changes: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        _ = document(**changes).data


def test_only_test_experiments_allow_seeded_dice_plain_http_and_no_relay() -> None:
    relay = Relay(url="http://127.0.0.1:8080/", key=RELAY.public)
    for relays in ((), (relay,)):
        of_test = ExperimentDocument.from_bytes(document(test=True, relays=relays).data)
        of_test.check_seeded_dice()
    with pytest.raises(LocalProtocolError):
        document().check_seeded_dice()
    with pytest.raises(LocalProtocolError, match="must begin with https"):
        _ = document(relays=(relay,)).data


@pytest.mark.parametrize("host", ["a" * 56, f"relay.{'b7' * 28}"])
def test_an_onion_service_needs_no_https(host: str) -> None:
    relay = Relay(url=f"http://{host}.onion/relay", key=RELAY.public)
    assert ExperimentDocument.from_bytes(document(relays=(relay,)).data).relays == (relay,)


@pytest.mark.parametrize("host", ["a" * 55, "a" * 57, f"{'a' * 55}1", f"{'A' * 56}"])
def test_what_only_looks_like_an_onion_service_needs_https(host: str) -> None:
    for url in (f"http://{host}.onion/", f"http://{'a' * 56}.onion.example/", f"http://x@{'a' * 56}.onion/"):
        with pytest.raises(LocalProtocolError, match="must begin with https"):
            _ = document(relays=(Relay(url=url, key=RELAY.public),)).data


def test_published_experiment_is_read_by_its_digest_and_signature() -> None:
    of = document(coordinator_keys=(COORDINATOR.public, SECOND.public), threshold=2)
    data = publish(of, keys=(COORDINATOR, SECOND))
    assert read_published(data, digest=of.digest) == of
    with pytest.raises(MalformedMessageError):
        read_published(data, digest="00" * 32)
    for keys in ((COORDINATOR,), (COORDINATOR, STRANGER)):
        with pytest.raises(LocalProtocolError):
            publish(of, keys=keys)


def test_experiment_that_its_own_keys_did_not_sign_is_refused() -> None:
    of = document()
    theirs = document(coordinator_keys=(STRANGER.public,))
    forged = publish(theirs, keys=(STRANGER,)).replace(theirs.data, of.data)
    with pytest.raises((BadSignatureError, MalformedMessageError)):
        read_published(forged, digest=of.digest)


def test_hours_of_the_day_are_those_of_the_place() -> None:
    windows = Windows(length_s=LENGTH_S, grace_s=0, first_opening=0, hours=((8, 12), (14, 24)))
    hour = 3_600_000
    assert not windows.open_at_hour(7 * hour, offset_s=0)
    assert windows.open_at_hour(7 * hour, offset_s=3600)
    assert windows.open_at_hour(12 * hour - 1, offset_s=0)
    assert not windows.open_at_hour(12 * hour, offset_s=0)
    assert windows.open_at_hour(2 * hour, offset_s=-5 * 3600)


@pytest.mark.parametrize(
    ("path", "key"),
    [("log.witnesses.0.key", key) for key in (COORDINATOR, RELAY, LOG)]
    + [("log.key", COORDINATOR), ("log.key", RELAY)],
)
def test_keys_of_a_log_and_its_witnesses_are_those_of_no_other_party(path: str, key: SigningKey) -> None:
    with pytest.raises(MalformedMessageError):
        ExperimentDocument.from_bytes(changed(LOGGED, path, key.public.data.hex()))


def test_floor_is_reached_by_all_labels_together() -> None:
    assert document(floor=10).reaches_floor([5, 5])
    assert not document(floor=10).reaches_floor([5, 4])


def test_a_document_for_one_relay_has_no_privacy() -> None:
    with pytest.raises(LocalProtocolError, match="tells what it was asked for"):
        _ = document(privacy=relayed_document().privacy).data
    with pytest.raises(LocalProtocolError, match="tells what it was asked for"):
        _ = replace(relayed_document(), privacy=None).data
    with pytest.raises(LocalProtocolError, match="another share"):
        _ = replace(relayed_document(), train_share=Fraction(1, 2)).data
