r"""ModelFile: what training leaves behind, as a file.

The file is plain and safe to open: nothing in it is code. It has

    secvm-model-v1\n
    one line of JSON (sorted keys): what the model answers and how its features are binned
    the sections named in the JSON under "sections", as [name, kind, length in bytes], one after the other
    32 bytes: BLAKE2b-256 of everything before

Equal training gives equal bytes: no times, no paths, no compression. Kinds: "words" (UTF-8, one a line), "i4", "i8",
"f8" (little-endian), "bytes". With the state goes the seed of the people's dice ("seed"): without it thinned
training could not go on as it would have. "label_kind" says what the labels were before they became text: text, int,
float or bool. "one_per_bin" stands there only where it is true, and "frame", what became of each column, where columns
are more than levels and counts.

The header tells every field of the experiment, so that nothing is lost on the way. ``fixed_point_rows`` follows from
rule and thinning. "cover" and "robust" stand there only where there is one, so that files without them have the bytes
they always had, and old files are read.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from secvm.errors import BadExperimentError, BadInputError, BadModelFileError, SecVMError
from secvm.files import read_beginning_with
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import State, rule_by_name
from secvm.learning.cover_law import Noise, RelayCover
from secvm.learning.experiment import Experiment, Robust
from secvm.learning.individual.binning import Binning, HashBinning, VocabularyBinning
from secvm.learning.losses import Loss
from secvm.learning.thinning import Thinning
from secvm.learning.weights import Weights

#: How the header writes rationals: as ``str`` of a Fraction. No exponents: 1e999999999 would keep a reader busy for
#: hours.
_RATIO = re.compile(r"-?[0-9]{1,2000}(/[0-9]{1,2000})?", re.ASCII)


def experiment_header(experiment: Experiment) -> dict[str, Any]:
    """What the file tells of the experiment, as JSON."""
    loss, cover, robust = experiment.loss, experiment.cover, experiment.robust
    header: dict[str, Any] = {
        "bins": experiment.n_bins,
        "budget": experiment.budget,
        "class_weights": [str(w) for w in experiment.class_weights],
        "features_per_person": experiment.features_per_person,
        "labels": list(experiment.labels),
        "loss": {"name": loss.name, "parameter": None if loss.parameter is None else str(loss.parameter)},
        "multiclass": experiment.multiclass,
        "rule": {"name": experiment.rule.name, **experiment.rule.parameters()},
        "target": [str(experiment.target_centre), str(experiment.target_spread)],
        "weighted_updates": experiment.weighted_updates,
        "thinning": experiment.thinning.content(),
    }
    if cover is not None:
        header["cover"] = _cover_header(cover)
    if robust is not None:
        header["robust"] = robust.content()
    return header


def read_experiment(header: dict[str, Any]) -> Experiment:
    """The experiment of a header; raises whatever a header that is none comes to."""
    rule_header = dict(header["rule"])
    rule = rule_by_name(rule_header.pop("name"), rule_header)
    thinning = Thinning.read(header["thinning"])
    parameter = header["loss"]["parameter"]
    return Experiment(
        n_bins=header["bins"],
        labels=tuple(header["labels"]),
        rule=rule,
        loss=Loss(header["loss"]["name"], None if parameter is None else ratio(parameter)),
        thinning=thinning,
        class_weights=tuple(ratio(w) for w in header["class_weights"]),
        multiclass=header["multiclass"],
        features_per_person=header["features_per_person"],
        budget=header["budget"],
        target_centre=ratio(header["target"][0]),
        target_spread=ratio(header["target"][1]),
        fixed_point_rows=rule.normalised and not thinning.active,
        weighted_updates=bool(header["weighted_updates"]),
        cover=_read_cover(header["cover"]) if "cover" in header else None,
        robust=Robust.read(header["robust"]) if "robust" in header else None,
    )


def ratio(text: str) -> Fraction:
    """A number as the header writes it."""
    if not _RATIO.fullmatch(text):
        raise BadInputError("a ratio is not written as one")
    return Fraction(text)


def _cover_header(cover: RelayCover) -> dict[str, Any]:
    return {
        "packages": cover.packages,
        "participation": _law_header(cover.participation),
        "parts": cover.parts,
        "test": None if cover.test is None else _law_header(cover.test),
        "train": _law_header(cover.train),
        "train_share": str(cover.train_share),
    }


def _law_header(noise: Noise) -> dict[str, Any]:
    return {"cells": noise.cells, "odds": str(noise.odds), "shape": str(noise.shape)}


def _read_law(header: dict[str, Any]) -> Noise:
    return Noise(cells=int(header["cells"]), shape=ratio(header["shape"]), odds=ratio(header["odds"]))


def _read_cover(header: dict[str, Any]) -> RelayCover:
    return RelayCover(
        train=_read_law(header["train"]),
        participation=_read_law(header["participation"]),
        test=None if header["test"] is None else _read_law(header["test"]),
        parts=int(header["parts"]),
        packages=int(header["packages"]),
        train_share=ratio(header["train_share"]),
    )


if TYPE_CHECKING:
    from secvm.estimator.frames.plan import FramePlan
    from secvm.estimator.frames.quantise import Quantiser

_MAGIC = b"secvm-model-v1\n"
_DIGEST = 32
#: Of a model file, read or written: millions of bins with hundreds of labels fit, or the most bins with their state.
MAX_MODEL_BYTES = 2**31
LABEL_KINDS = ("text", "int", "float", "bool")


@dataclass(frozen=True, eq=False)
class ModelFile:
    """A trained model with all that is needed to use it.

    >>> from secvm.estimator import SecVMClassifier
    >>> trained = SecVMClassifier(n_bins=None, rounds=20).fit([["tea", "rain"], ["sun", "sea"]], ["n", "s"])
    >>> asked, binning = trained.experiment_, trained.binner_.binning_
    >>> model = ModelFile(experiment=asked, binning=binning, weights=trained.weights_, presence=True, rounds=20)
    >>> ModelFile.from_bytes(model.to_bytes()).experiment.labels
    ('n', 's')
    """

    experiment: Experiment
    binning: Binning
    #: Evaluation weights.
    weights: Weights
    presence: bool
    #: Rounds it was trained for.
    rounds: int
    #: For models trained on columns of numbers as levels.
    quantiser: Quantiser | None = None
    #: For models trained on other columns: what they become.
    frame: FramePlan | None = None
    #: Column names or None: what the columns were called when it was trained.
    columns: tuple[str, ...] | None = None
    #: The descent state, where training is to go on, and the seed of the people's dice that goes with it.
    state: bytes = b""
    seed: bytes = b""
    #: What the labels were before they became text: one of ``LABEL_KINDS``.
    label_kind: str = "text"
    #: Presence after hashing too: every bin counts once.
    one_per_bin: bool = False

    @property
    def values(self) -> str:
        """How features count, in the estimators' words."""
        if self.one_per_bin or self.presence:
            return "one-per-bin" if self.one_per_bin else "presence"
        return "counts" if self.frame is None else "auto"

    def to_bytes(self) -> bytes:
        """The file."""
        sections: list[tuple[str, str, bytes]] = [
            ("mantissas", "i4", self.weights.mantissas.astype("<i4").tobytes()),
        ]
        if isinstance(self.binning, VocabularyBinning):
            sections.append(("vocabulary", "words", "".join(f"{w}\n" for w in self.binning.words).encode()))
        if self.quantiser is not None:
            sections.append(("centre", "f8", self.quantiser.centre.astype("<f8").tobytes()))
            sections.append(("factor", "f8", self.quantiser.factor.astype("<f8").tobytes()))
        if self.state:
            sections.append(("state", "bytes", self.state))
            sections.append(("seed", "bytes", self.seed))
        header: dict[str, Any] = {
            "binning": self._binning_header(),
            "columns": self.columns if self.columns is None else list(self.columns),
            "experiment": experiment_header(self.experiment),
            "label_kind": self.label_kind,
            "presence": self.presence,
            "rounds": self.rounds,
            "sections": [[name, kind, len(data)] for name, kind, data in sections],
            "weights": {
                "first": self.weights.first,
                "normalised": self.weights.normalised,
                "unit": str(self.weights.unit),
            },
        }
        if self.one_per_bin:
            header["one_per_bin"] = True
        if self.frame is not None:
            header["frame"] = self.frame.content()
        line = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        body = _MAGIC + line + b"\n" + b"".join(data for _, _, data in sections)
        if len(body) + _DIGEST > MAX_MODEL_BYTES:
            raise BadInputError(f"the model is too large for a file: more than {MAX_MODEL_BYTES} bytes")
        return body + hashlib.blake2b(body, digest_size=_DIGEST).digest()

    def _binning_header(self) -> dict[str, Any]:
        match self.binning:
            case HashBinning(n_bins=n_bins, salt=salt, n_hashes=n_hashes):
                return {"kind": "hash", "bins": n_bins, "salt": salt.hex(), "hashes": n_hashes}
            case VocabularyBinning():
                return {"kind": "vocabulary", "digest": self.binning.digest}

    @classmethod
    def read(cls, path: Path) -> ModelFile:
        """The model of the file at this path. Of another kind of file no more is read than the first few bytes."""
        try:
            data = read_beginning_with(_MAGIC, path, most=MAX_MODEL_BYTES)
        except BadInputError as fault:
            raise BadModelFileError(str(fault)) from None
        return cls.from_bytes(data)

    @classmethod
    def from_bytes(cls, data: bytes) -> ModelFile:
        """The model of a file; anything but a whole, unchanged file is refused."""
        if not data.startswith(_MAGIC):
            raise BadModelFileError("this is not a SecVM model file")
        body, digest = data[:-_DIGEST], data[-_DIGEST:]
        if hashlib.blake2b(body, digest_size=_DIGEST).digest() != digest:
            raise BadModelFileError("the model file is damaged: its digest does not fit its content")
        try:
            end = body.index(b"\n", len(_MAGIC))
            header = json.loads(body[len(_MAGIC) : end])
            return cls._from_parts(header, _sections(header, body[end + 1 :]))
        except BadExperimentError as fault:
            raise BadModelFileError(
                f"the model file does not hold what a model needs: {fault}",
                next_step="If its rule or loss comes from another package, install that package here too.",
            ) from None
        except (SecVMError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
            raise BadModelFileError("the model file does not hold what a model needs") from None

    @classmethod
    def _from_parts(cls, header: dict[str, Any], sections: dict[str, bytes]) -> ModelFile:
        experiment = read_experiment(header["experiment"])
        kind = header["binning"]
        binning: Binning
        if kind["kind"] == "hash":
            binning = HashBinning(n_bins=kind["bins"], salt=bytes.fromhex(kind["salt"]), n_hashes=kind["hashes"])
        else:
            binning = VocabularyBinning(tuple(sections["vocabulary"].decode().split("\n")[:-1]))
            if binning.digest != kind["digest"]:
                raise BadInputError("the vocabulary is not the one that was named")
        if binning.n_bins != experiment.n_bins:
            raise BadInputError("bins and binning do not fit")
        shape = (experiment.models.n_models, experiment.n_bins + 1)
        weights = Weights(
            mantissas=np.frombuffer(sections["mantissas"], dtype="<i4").astype(np.int32).reshape(shape),
            unit=ratio(header["weights"]["unit"]),
            normalised=bool(header["weights"]["normalised"]),
            first=bool(header["weights"]["first"]),
        )
        quantiser = None
        if "centre" in sections:
            from secvm.estimator.frames.quantise import Quantiser

            quantiser = Quantiser(
                centre=np.frombuffer(sections["centre"], dtype="<f8").astype(np.float64),
                factor=np.frombuffer(sections["factor"], dtype="<f8").astype(np.float64),
            )
        columns = header["columns"]
        frame = None
        if "frame" in header:
            from secvm.estimator.frames.plan import FramePlan

            frame = FramePlan.read(header["frame"])
        if frame is not None and len(columns or []) not in (0, len(frame.columns)):
            raise BadInputError("columns and their names do not fit")
        _check_columns(quantiser, columns, binning)
        state = sections.get("state", b"")
        if state:
            _check_state(state, experiment)
        if header["label_kind"] not in LABEL_KINDS:
            raise BadInputError("the kind of the labels is unknown")
        return cls(
            experiment=experiment,
            binning=binning,
            weights=weights,
            presence=bool(header["presence"]),
            rounds=int(header["rounds"]),
            quantiser=quantiser,
            frame=frame,
            columns=None if columns is None else tuple(str(c) for c in columns),
            state=state,
            seed=sections.get("seed", b""),
            label_kind=header["label_kind"],
            one_per_bin=bool(header.get("one_per_bin", False)),
        )


def _sections(header: dict[str, Any], body: bytes) -> dict[str, bytes]:
    sections: dict[str, bytes] = {}
    at = 0
    for name, _kind, length in header["sections"]:
        if length < 0 or at + length > len(body):
            raise BadInputError("a section is longer than the file")
        sections[str(name)] = body[at : at + length]
        at += length
    if at != len(body):
        raise BadInputError("bytes are left over")
    return sections


def _check_columns(quantiser: Quantiser | None, columns: list[str] | None, binning: Binning) -> None:
    """Centres, factors, names and unhashed bins of columns go together."""
    if quantiser is None:
        return
    n = len(quantiser.centre)
    if len(quantiser.factor) != n or len(columns or []) not in (0, n):
        raise BadInputError("centres, factors and names of the columns do not fit")
    if isinstance(binning, VocabularyBinning) and binning.n_bins != n:
        raise BadInputError("columns and bins do not fit")


def _check_state(data: bytes, experiment: Experiment) -> None:
    """The state is one of this experiment."""
    state, start = State.from_bytes(data), aggregate.start(experiment)
    kinds = {name: (v.dtype, v.shape) for name, v in state.vectors.items()}
    if state.rule != start.rule or kinds != {name: (v.dtype, v.shape) for name, v in start.vectors.items()}:
        raise BadInputError("the state belongs to another experiment")
