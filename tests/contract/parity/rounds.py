"""One device's round, at random: experiment, tallies before, person, dice; and what Python's device makes of them."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import cycle, islice
from math import ceil
from typing import Any

import numpy as np

from secvm.crypto.tokens import TOKEN_BYTES
from secvm.errors import SecVMError
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos, State, Swift
from secvm.learning.aggregate.tally import Tally
from secvm.learning.cover_law import Noise, RelayCover, relay_budget
from secvm.learning.experiment import Experiment, Robust
from secvm.learning.individual.binning import VocabularyBinning
from secvm.learning.individual.contribution import Individual, contribute
from secvm.learning.individual.dice import draw_cohort, sample_features
from secvm.learning.individual.update import fixed_target, score
from secvm.learning.label_models import LabelModels
from secvm.learning.losses import Loss
from secvm.learning.thinning import Thinning
from secvm.participant.dice import RandomBytes, safe_dice, system_words, unsafe_seeded_dice
from secvm.participant.person.pinning import binned, binning_of
from secvm.protocol.canonical import digest_of
from secvm.protocol.codec import AddressedPackage, ExperimentId, encode
from secvm.protocol.documents.blobs import MAX_COUNT
from secvm.protocol.documents.experiment import ExperimentDocument, FeaturesWanted, HashedBins, VocabularyBins
from secvm.protocol.relays.manifest import RelayedManifest, manifest_faults
from secvm.protocol.relays.submission import SECRETS_BYTES, draw_order, seal_submission
from secvm.protocol.schedule import Window, redraw, spread
from secvm_lab.rigs.histories.relayed_rounds import START, RelayedRound, relayed_document
from tests.contract.parity.channel import JSON

WORDS = (
    "the",
    "cat",
    "Größe",
    "é",
    "e\u0301",
    "host:example.org",
    "😀",
    "\uffee",
    "ﬀ",
    "日本",
    "",
    *map(str, range(60)),
)
CLASSIFYING = (
    ("hinge", None),
    ("perceptron", None),
    ("logistic", None),
    ("squared-hinge", 4),
    ("modified-huber", None),
)
NUMBERING = (("epsilon-insensitive", Fraction(1, 7)), ("pinball", Fraction(9, 10)))
#: Bytes of the system's dice; no multiple of a word, so that they do not come round soon.
STREAM = 2039


def draw_question(dice: random.Random) -> JSON:
    """A question for both languages."""
    document, words = draw_document(dice)
    experiment = document.experiment
    seeded = dice.random() < 0.5
    tallies = [told(draw_tally(dice, experiment)) for _ in range(dice.randint(0, 3))]
    opens = START + dice.randrange(10**9)
    return {
        "document": document.data.decode(),
        "words": words,
        "manifest": draw_manifest(dice, document, len(tallies) + 1).data.decode(),
        "tallies": tallies,
        "features": [[word, dice.choice((1, 1, 1, 2, 7, 0))] for word in dice.sample(WORDS, dice.randint(0, 20))],
        "label": dice.gauss(0, 3) if experiment.loss.regression else dice.randrange(len(experiment.labels)),
        "seed": dice.randbytes(dice.randint(0, 40)).hex() if seeded else None,
        "participant": dice.choice((0, 7, 2**32, 2**53 - 1)),
        "stream": dice.randbytes(STREAM).hex(),
        "window": [opens, opens + dice.choice((1, 600, 86_400_000, 2**40, 2**40))],
        "now": opens + dice.randrange(-500, 500),
        "grace": dice.choice((0, 100)),
        "token": dice.randbytes(TOKEN_BYTES).hex() if document.tokens else "",
    }


def draw_document(dice: random.Random) -> tuple[ExperimentDocument, list[str]]:
    """An experiment with relays' cover, and the vocabulary that it names, if it names one."""
    words = list(dice.sample(WORDS, dice.randint(1, 30))) if dice.random() < 0.2 else []
    bins, hashes = len(words) or dice.choice((1, 1, 2, 7, 24, 300, 2000)), 1 if words else dice.randint(1, 3)
    regression = dice.random() < 0.15
    labels = tuple("abcd"[: 1 if regression else dice.randint(2, 4)])
    multiclass = dice.choice(("ovr", "ovo"))
    models, features = LabelModels(len(labels), multiclass), dice.randint(1, 9)
    share = Fraction(dice.randint(1, 10), 10)
    binning = HashedBins(bins=bins, hashes=hashes, salt=dice.randbytes(dice.choice((16, 32))))
    experiment = Experiment(
        n_bins=bins,
        labels=labels,
        multiclass=multiclass,
        loss=Loss(*dice.choice(NUMBERING if regression else CLASSIFYING)),
        class_weights=()
        if regression or dice.random() < 0.5
        else tuple(Fraction(dice.randint(1, 9), dice.randint(1, 4)) for _ in labels),
        features_per_person=features,
        budget=relay_budget(violable=models.most_per_person, features=features, hashes=hashes),
        target_centre=Fraction(dice.randint(-9, 9), 7) if regression else Fraction(0),
        target_spread=Fraction(dice.randint(1, 9), 5) if regression else Fraction(1),
        cover=_cover(dice, models, bins, labels=len(labels), tested=not regression, share=share),
        robust=dice.choice((None, Robust(clip=Fraction(dice.randint(1, 9), 4)), Robust(trim=3))),
        **_rule(dice),
    )
    document = relayed_document(
        experiment=experiment,
        binning=VocabularyBins(bins=bins, digest=VocabularyBinning(tuple(words)).digest) if words else binning,
        features=FeaturesWanted(source="words", description="Words."),
        train_share=share,
        test=True,
        tokens=dice.random() < 0.5,
    )
    return document, words


def draw_manifest(dice: random.Random, document: ExperimentDocument, number: int) -> RelayedManifest:
    """A round of the experiment; now and then one that its experiment or its relays contradict."""
    said = document if dice.random() < 0.8 else replace(document, tokens=not document.tokens)
    manifest = RelayedRound(document=said, name=dice.randbytes(8).hex()).manifest
    before: dict[str, Any] = {name: digest_of(dice.randbytes(8)) for name in ("previous", "opening")}
    return manifest if number == 1 else replace(manifest, round_number=number, **before)


def _rule(dice: random.Random) -> dict[str, Any]:
    if dice.random() < 0.5:
        decay = Fraction(dice.randint(0, 5), 50)
        return {"rule": Swift(decay=decay), "thinning": Thinning(rho=Fraction(dice.randint(1, 8), 2))}
    rule = Pegasos(
        lambda_=Fraction(1, 10 ** dice.randint(0, 6)),
        averaging=dice.randint(1, 4),
        step_cap=dice.choice((None, Fraction(1, 2), Fraction(1, 9))),
    )
    return {"rule": rule, "thinning": dice.choice((Thinning(), Thinning(q=Fraction(1, dice.randint(1, 4)))))}


def _cover(
    dice: random.Random, models: LabelModels, bins: int, *, labels: int, tested: bool, share: Fraction
) -> RelayCover:
    def noise(cells: int) -> Noise:
        return Noise(cells=cells, shape=Fraction(dice.randint(1, 9), 2), odds=Fraction(dice.randint(1, 20), 4))

    kinds = [noise(2 * models.n_models * (bins + 1)), noise(2 * labels), noise(labels**2)]
    parts = dice.randint(4, 9)
    most = ceil(sum(kind.cells * kind.part(parts) * kind.odds for kind in kinds))
    return RelayCover(
        train=kinds[0],
        participation=kinds[1],
        test=kinds[2] if tested else None,
        parts=parts,
        packages=parts * (most + 5),
        train_share=share,
    )


def draw_tally(dice: random.Random, experiment: Experiment) -> Tally:
    """A net tally: cover's mean, noise, and in most rounds people."""
    known = aggregate.known_means(experiment)
    generator = np.random.default_rng(dice.getrandbits(63))

    def about(mean: Any, most: int) -> Any:
        return np.maximum(0, mean + generator.integers(-most // 3, most + 1, mean.shape))

    people = dice.choice((0, 5, 40, 40, 10**6, MAX_COUNT - 2 * 10**6))
    return Tally(
        plus=about(known.plus, people),
        minus=about(known.minus, people),
        participants=about(known.participants, people),
        cells=about(known.cells, people),
    )


def told(tally: Tally) -> JSON:
    """Without its test cells, of which no model depends."""
    return {name: getattr(tally, name).tolist() for name in ("plus", "minus", "participants")}


# ── Python's answers ─────────────────────────────────────────────────────────────────────────────────────────────────


def answer_round(question: JSON) -> JSON:
    """What Python's device computes."""
    document = ExperimentDocument.from_bytes(question["document"].encode())
    experiment = document.experiment
    state, models = _stepped(experiment, question["tallies"])
    system = repeating(bytes.fromhex(question["stream"]))
    seed = question["seed"]
    dice_for = safe_dice(system) if seed is None else unsafe_seeded_dice(bytes.fromhex(seed), question["participant"])
    dice = dice_for(document)
    sample = sample_features(dict(question["features"]), experiment.features_per_person, dice)
    vocabulary = VocabularyBinning(tuple(question["words"])) if question["words"] else None
    vector = binned(document, sample, binning_of(document, vocabulary))
    centre, spread_by = experiment.target_centre, experiment.target_spread
    regression = experiment.loss.regression
    person = Individual(
        vector=vector,
        label=0 if regression else question["label"],
        target=fixed_target(question["label"], centre=centre, spread=spread_by, clamp=True) if regression else 0,
        cohort=draw_cohort(document.train_share, dice),
    )
    training = aggregate.training_weights(experiment, state)
    evaluation = aggregate.evaluation_weights(experiment, state)
    number = len(question["tallies"]) + 1
    packages = contribute(
        person, experiment=experiment, training=training, evaluation=evaluation, dice=dice, round_number=number
    )
    scores = [score(evaluation, model, vector) for model in range(experiment.models.n_models)]
    words = system_words(system)
    encoded = [encode(AddressedPackage(ExperimentId(document.experiment_id), number, each)) for each in packages]
    window = Window(*question["window"])
    times = spread(3, window, words)
    order = draw_order(len(packages), words)
    manifest = RelayedManifest.from_bytes(question["manifest"].encode())
    secrets = b"".join(system(SECRETS_BYTES) for _ in packages)
    token = bytes.fromhex(question["token"])
    sent = seal_submission(document, manifest, packages, order=order, ephemerals=secrets, token=token)
    return {
        "digest": document.digest,
        "models": models,
        "sample": list(sample.items()),
        "vector": list(vector.values.items()),
        "target": str(person.target),
        "cohort": person.cohort.value,
        "packages": [each.hex() for each in encoded],
        "scores": scores,
        "predicted": None if regression else int(experiment.models.predict(np.array([scores]))[0]),
        "times": times,
        "order": list(order.places),
        "redrawn": redraw(times, window, words, now=question["now"], grace=question["grace"]),
        "faults": [fault.name for fault in manifest_faults(manifest, document)],
        "request": sent.body.hex(),
        "canary": sent.canary.to_bytes().decode(),
        "recounts": sent.canary.recounts,
    }


def _stepped(experiment: Experiment, tallies: list[JSON]) -> tuple[State, list[JSON]]:
    """The state after these tallies, and the names of its blobs after each; a step that cannot be taken says why."""
    state, models = aggregate.start(experiment), []
    empty = aggregate.empty_tally(experiment)
    assert experiment.cover is not None
    for counts in tallies:
        tally = Tally(cells=empty.cells, **{name: np.array(rows, np.int64) for name, rows in counts.items()})
        explained = aggregate.explains(experiment.cover, tally, 10)
        try:
            state = aggregate.step(experiment, state, tally)
        except SecVMError as fault:
            models.append({"explained": explained, "error": [type(fault).__name__, str(fault)]})
            continue
        weights = aggregate.training_weights(experiment, state), aggregate.evaluation_weights(experiment, state)
        names = [digest_of(blob.to_bytes()) for blob in (state, *weights)]
        models.append({"explained": explained, "names": names})
    return state, models


def repeating(data: bytes) -> RandomBytes:
    """These bytes again and again."""
    endless = cycle(data)
    return lambda count: bytes(islice(endless, count))
