"""What is fixed when a person joins an experiment: cohort, sample of features, bins, label. Drawn once, never again.

The experiment says which source of features it looks at, how many of them, and how they become bins; all of that is in
the document whose digest the person agreed to, and no manifest can change it. The label is the person's own answer.

Where public randomness fixes the bins, the experiment's salt is fetched, verified and pinned with them. The coordinator
serves the first cosigned checkpoint and the beacons' records; ``protocol.trust.salt`` believes neither before
it has checked them. The development beacon is taken where the experiment is a test and the settings say so.

**Prediction.** The label on the device, from the last trusted model: that is what the model is for. Nothing is sent.
All features of the vault's source take part, not the sample that an experiment may see: nobody else learns of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import sqrt

import numpy as np

from secvm.crypto.beacons.sources import round_time
from secvm.errors import BadInputError, BeaconUnavailableError, RemoteProtocolError
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import (
    BinnedVector,
    Binning,
    HashBinning,
    VocabularyBinning,
    bin_features,
)
from secvm.learning.individual.contribution import Individual
from secvm.learning.individual.dice import Dice, KeptOnDevice, draw_cohort, sample_features
from secvm.learning.individual.update import fixed_target, score, squared_norm
from secvm.learning.weights import Weights
from secvm.participant.sending.transport import Transport
from secvm.participant.sources.agreement import check_agreed
from secvm.participant.sources.registry import how_to_import
from secvm.participant.storage.state import DeviceState
from secvm.participant.storage.vault import Vault
from secvm.participant.trust.model_files import ModelShelf
from secvm.participant.trust.trust_policy import TrustPolicy
from secvm.protocol.documents.experiment import ExperimentDocument, HashedBins, read_published
from secvm.protocol.trust.salt import salt_of


def pin_person(
    document: ExperimentDocument,
    vault: Vault,
    dice: Dice,
    *,
    source: str | None = None,
    vocabulary: VocabularyBinning | None = None,
    salt: bytes | None = None,
) -> Individual:
    """The person as this experiment will see it, from the vault.

    ``source`` is another of the vault's sources than the experiment names, if the person wants so; ``salt`` is what its
    beacons fixed, where it names some.

    Raises
    ------
    BadInputError
        Something is missing. The sentence names no feature and no label.
    """
    binning = binning_of(document, vocabulary, salt=salt)
    name = source or document.features.source
    features = vault.features(name).value
    if not features:
        raise BadInputError(
            f"the vault has no features of the source '{name}'", next_step=f"Bring them in: {how_to_import(name)}"
        )
    check_agreed(document.features, features, vault.readings().get(name), source=name)
    answer = vault.label(document.digest)
    if answer is None:
        raise BadInputError(
            f"the vault has no label for this experiment{_wanted(document)}",
            next_step=f"Give yours with: secvm participant label {document.digest}",
        )
    sample = sample_features(features, document.experiment.features_per_person, dice)
    label, target = _label(document, answer)
    return Individual(
        vector=binned(document, sample, binning),
        label=label,
        target=target,
        cohort=draw_cohort(document.train_share, dice),
    )


def binned(document: ExperimentDocument, features: Mapping[str, int], binning: Binning) -> BinnedVector:
    """Features as the experiment counts them: with cover, one unit per bin and no more."""
    covered = document.experiment.cover is not None
    return bin_features(features, binning, presence=document.features.presence, one_per_bin=covered)


def binning_of(
    document: ExperimentDocument, vocabulary: VocabularyBinning | None = None, *, salt: bytes | None = None
) -> Binning:
    """How features become bins."""
    bins = document.binning
    if isinstance(bins, HashedBins):
        salt = salt if bins.salt is None else bins.salt
        if salt is None:
            raise BadInputError("this experiment's salt comes from beacons, and this device does not have it")
        return HashBinning(n_bins=bins.bins, salt=salt, n_hashes=bins.hashes)
    if vocabulary is None:
        raise BadInputError("this experiment needs its list of words", next_step="Give it with --vocabulary FILE.")
    if vocabulary.digest != bins.digest:
        raise BadInputError("this is not the list of words that the experiment names")
    return vocabulary


def _wanted(document: ExperimentDocument) -> str:
    """The labels that there are, which everybody knows: whoever answers must know the words."""
    if document.experiment.loss.regression:
        return ", whose label is a number"
    return f", whose labels are: {', '.join(document.experiment.labels)}"


def _label(document: ExperimentDocument, answer: KeptOnDevice[str]) -> tuple[int, int]:
    """Index of the label, and the number in fixed point where the label is one."""
    experiment = document.experiment
    if not experiment.loss.regression:
        if answer.value not in experiment.labels:
            raise BadInputError(
                f"the label in the vault is none of this experiment's{_wanted(document)}",
                next_step=f"Give yours with: secvm participant label {document.digest}",
            )
        return experiment.labels.index(answer.value), 0
    try:
        number = float(answer.value)
    except ValueError:
        # Without the cause, which would quote the label.
        number = float("nan")
    return 0, fixed_target(
        number,
        centre=experiment.target_centre,
        spread=experiment.target_spread,
        clamp=experiment.cover is not None,
    )


_MOST_PROOF_BYTES = 2**18


async def fetch_salt(
    document: ExperimentDocument, transport: Transport, policy: TrustPolicy, *, now: int
) -> bytes | None:
    """The salt that the experiment's beacons fixed; None where it names none.

    Raises
    ------
    BeaconUnavailableError
        Nobody can know it yet, or nobody answers for it yet.
    BadInputError
        What was served is not what public randomness fixed after the experiment was logged.
    """
    binning = document.binning
    if not isinstance(binning, HashedBins) or binning.salt is not None:
        return None
    try:
        times = [round_time(beacon.chain, beacon.round_number) for beacon in binning.beacons]
        last = max((at for at in times if at is not None), default=0)
        if last > now:
            when = datetime.fromtimestamp(last / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
            raise BeaconUnavailableError(
                f"this experiment's salt is not known before {when} UTC: its beacons are to come"
            )
        path = f"/v1/experiment/{document.digest}"
        first = await transport.fetch(f"{path}/first", most=_MOST_PROOF_BYTES)
        records = [await transport.fetch(f"{path}/beacon/{i}") for i in range(len(binning.beacons))]
        contents = [record.content for record in records if record is not None]
        if first is None or len(contents) != len(records):
            raise BeaconUnavailableError(
                "this experiment's salt cannot be had yet: its coordinator does not have all beacons' records",
                next_step="Join a little later.",
            )
        return salt_of(
            document,
            first=first.content,
            records=contents,
            allow_unsafe=policy.unsafe_beacons,
            policy=policy.log_policy,
        )
    except RemoteProtocolError as fault:
        raise BadInputError(f"this experiment's salt cannot be believed: {fault}") from None


@dataclass(frozen=True, slots=True, repr=False)
class Prediction:
    """What a model says of a person. Secret: it does not print itself."""

    #: The label, or the number as text.
    label: str
    #: How clearly: the winner's score, in units of the margin; None where the label is a number.
    margin: float | None
    #: After how many rounds the model is, as ``experiment export`` counts them.
    rounds: int

    def __repr__(self) -> str:
        return "Prediction(...)"


def predict_for(
    digest: str,
    state: DeviceState,
    vault: Vault,
    *,
    source: str | None = None,
    vocabulary: VocabularyBinning | None = None,
) -> Prediction:
    """The label that the last trusted model of an experiment gives to the person of this vault."""
    record, model = state.record(digest), state.model(digest)
    if record is None:
        raise BadInputError("this device does not know that experiment")
    if model is None:
        raise BadInputError("there is no model of that experiment on this device yet")
    document = read_published(record.envelope, digest=digest)
    # People of a test share one shelf, beside their folders.
    own, shared = state.folder / "models", state.folder.parent / "models"
    weights = ModelShelf(shared if shared.is_dir() and not own.is_dir() else own).kept(model.weights, document)
    if weights.first:
        raise BadInputError("the model has learnt nothing yet", next_step="Ask again after the next round.")
    features = vault.features(source or document.features.source).value
    vector = binned(document, features, binning_of(document, vocabulary, salt=record.salt))
    label, margin = _answer(document.experiment, weights, vector)
    return Prediction(label, margin, model.rounds)


def _answer(experiment: Experiment, weights: Weights, vector: BinnedVector) -> tuple[str, float | None]:
    models = experiment.models
    scores = [score(weights, model, vector) for model in range(models.n_models)]
    unit = float(weights.unit) / (sqrt(squared_norm(vector)) if weights.normalised else 1.0)
    if experiment.loss.regression:
        number = scores[0] * unit * float(experiment.target_spread) + float(experiment.target_centre)
        return f"{number:.6g}", None
    winner = int(models.predict(np.array([scores], dtype=np.int64))[0])
    # Of the models in which the winner has a side of its own: one against all, or its pairs; the weakest of them.
    signs = models.signs[winner].tolist()
    own = [sign * score_of for sign, score_of in zip(signs, scores, strict=True) if sign]
    if len(experiment.labels) > 2 and experiment.multiclass == "ovr":
        own = [scores[winner]]
    return experiment.labels[winner], min(own) * unit
