"""What the learning commands' options mean: text from the command line → the values of ``learning``.

Every refusal is one sentence (``BadInputError``), and comes before anything is read or written where it can.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from secvm.cli.output import note
from secvm.errors import BadInputError
from secvm.estimator.question import SWIFT_ROUNDS
from secvm.files import try_beside
from secvm.learning.aggregate.descent import RULES, DescentRule, Pegasos, Swift, foreign
from secvm.learning.arithmetic import exact
from secvm.learning.declared import MAX_BINS, shown
from secvm.learning.individual.binning import Binning, HashBinning
from secvm.learning.losses import LOSSES, EpsilonInsensitive, Loss
from secvm.learning.package import MAX_ROUNDS
from secvm.people.person import label_number
from secvm.people.reader import read_vocabulary

ThreadsOption = Annotated[int, typer.Option(help="The result does not depend on it.", metavar="N", min=1)]
#: More whole numbers than this as labels are hardly names of classes.
_MANY_CLASSES = 20
#: int64 and float64 vectors that a run holds per model and bin at its peak: state, tally, direction, weights.
_VECTORS = 12


def number(text: str, option: str) -> Fraction:
    """A decimal number or a ratio, exactly."""
    try:
        return exact(text)
    except BadInputError:
        msg = f"{option} must be a number, not '{text}'"
        raise BadInputError(msg) from None


def seed_bytes(seed: int) -> bytes:
    """The seed of people's dice."""
    return hashlib.blake2b(str(seed).encode(), digest_size=16, person=b"secvm-v1-seed\0\0\0").digest()


def salt_bytes(salt: str | None, seed: int) -> bytes:
    """The salt as given in hexadecimal, or one that follows from the seed."""
    if salt is None:
        return hashlib.blake2b(str(seed).encode(), digest_size=16, person=b"secvm-v1-salt\0\0\0").digest()
    try:
        salt_ = bytes.fromhex(salt)
    except ValueError:
        raise BadInputError("--salt must be pairs of hexadecimal digits") from None
    if not salt_:
        raise BadInputError("--salt must not be empty: an unsalted hash is a public dictionary")
    return salt_


def whole(text: str, option: str, most: int) -> int:
    """A whole number from 1 on."""
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:20]) <= most:
        raise BadInputError(f"{option} must be a whole number from 1 to {most}, or auto; not '{text}'")
    return int(text)


def rounds(text: str, rule: DescentRule, *, regression: bool) -> int:
    """As many as were asked for, or as the estimators take."""
    if text != "auto":
        return whole(text, "--rounds", MAX_ROUNDS)
    return SWIFT_ROUNDS if isinstance(rule, Swift) else rule.usual_rounds(numbers=regression)


def usual_rounds() -> str:
    """What "auto" means for rounds, for a help text."""
    classes, numbers = Pegasos.usual_rounds(), Pegasos.usual_rounds(numbers=True)
    return f"auto: swift {SWIFT_ROUNDS}, pegasos {classes}, for numbers {numbers}."


def binning(
    bins: str, hashes: int, vocabulary: Path | None, salt: bytes, *, usual: Callable[[], int] | None
) -> Binning | None:
    """Hash, vocabulary, or None for unhashed; ``usual`` is what auto means, where it is not unhashed."""
    if bins == "auto":
        bins = "none" if usual is None or vocabulary is not None else str(usual())
    if vocabulary is not None:
        if bins != "none":
            raise BadInputError("--vocabulary and --bins exclude each other: the words are the bins")
        return read_vocabulary(vocabulary)
    if bins == "none":
        if hashes != 1:
            raise BadInputError("--hashes needs --bins: unhashed features have one bin each")
        return None
    try:
        n_bins = int(bins)
    except ValueError:
        msg = f"--bins must be a whole number, none or auto, not '{bins}'"
        raise BadInputError(msg) from None
    if not 1 <= n_bins <= MAX_BINS:
        msg = f"--bins must lie between 1 and {MAX_BINS}, or be none; not {n_bins}"
        raise BadInputError(msg)
    check_memory(n_bins, 1)
    return HashBinning(n_bins=n_bins, salt=salt, n_hashes=hashes)


def check_memory(n_bins: int, n_models: int) -> None:
    """Refuse what cannot fit before it is tried."""
    wanted = _VECTORS * 8 * n_models * (n_bins + 1)
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        with Path("/proc/meminfo").open() as lines:
            free = next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable")), free)
    except (OSError, ValueError):
        return  # a system that does not say: the attempt will show
    if wanted > free:
        msg = (
            f"{n_models} model(s) of {n_bins} bins need about {wanted >> 20} MB of memory, and {free >> 20} MB are free"
        )
        raise BadInputError(msg, next_step="Take fewer bins.")


@dataclass(frozen=True)
class RuleOptions:
    """The options that describe a descent rule; None where not given."""

    descent: str
    lambda_: str | None = None
    averaging: int | None = None
    step_cap: str | None = None
    decay: str | None = None
    #: Whether the label is a number: its defaults differ.
    regression: bool = False

    def rule(self) -> DescentRule:
        """The rule; options of another rule are refused."""
        kind = RULES.find(self.descent)
        given = {
            "lambda": self.lambda_, "averaging": self.averaging, "step_cap": self.step_cap, "decay": self.decay
        }  # fmt: skip
        given_settings: dict[str, object] = {}
        for name, value in given.items():
            option = f"--{name.replace('_', '-')}"
            if value is None:
                continue
            read = None if value == "none" and name == "step_cap" else number(str(value), option)
            if name not in kind.setting_names():
                raise BadInputError(foreign(name, kind, called=option))
            given_settings[name] = read
        return kind.read(given_settings, numbers=self.regression)


def check_classes(labels: Sequence[str], private: object) -> None:
    """Refuse numbers where classes are told apart, before each of them becomes a class; say so where they are whole."""
    numbers = [label_number(label) for label in labels]
    way_out = (
        f"To predict numbers: --loss {EpsilonInsensitive.name}."
        if private is None
        else "To predict numbers under an ε: SecVMRegressor, from Python."
    )
    if any(number is not None and not number.is_integer() for number in numbers):
        raise BadInputError(
            "a label is a number that is not whole, and this loss tells classes apart", next_step=way_out
        )
    if len(labels) > _MANY_CLASSES and None not in numbers:
        note(f"secvm: the labels are {len(labels)} different numbers, each a class of its own. {way_out}")


def usual(constant: str) -> str:
    """The defaults of a constant, rule by rule, for a help text."""
    defaults = []
    for rule in RULES.built_in.values():
        for setting in rule.settings():
            if setting.name == constant:
                values = [value for value in (setting.default, setting.for_numbers) if value is not None]
                defaults.append(f"{rule.name} {', for numbers '.join(map(shown, values))}")
    return "; ".join(defaults)


def losses(*, regression: bool) -> str:
    """The built-in losses for numbers as labels, or for classes, for a help text."""
    return ", ".join(name for name, shape in LOSSES.built_in.items() if shape.regression == regression)


def loss(name: str, parameter: str | None) -> Loss:
    """A loss by name."""
    if name not in LOSSES:
        msg = f"--loss must be one of {', '.join(LOSSES)}; not '{name}'"
        raise BadInputError(msg)
    return Loss(name, None if parameter is None else number(parameter, "--loss-parameter"))


def class_weights(given: Sequence[str], labels: Sequence[str], counts: NDArray[np.int64]) -> tuple[Fraction, ...]:
    """LABEL=W, several times, or the word balanced."""
    if not given:
        return ()
    if list(given) == ["balanced"]:
        total = Fraction(int(counts.sum()), len(labels))
        return tuple(total / int(n) if n else Fraction(1) for n in counts)
    weights = dict.fromkeys(labels, Fraction(1))
    for item in given:
        label, equals, weight = item.rpartition("=")
        if not equals:
            msg = f"--class-weight must be LABEL=W or balanced, not '{item}'"
            raise BadInputError(msg)
        if label not in weights:
            msg = f"--class-weight names the label '{label}', which does not occur"
            raise BadInputError(msg)
        weights[label] = number(weight, "--class-weight")
        if weights[label] < 0:
            raise BadInputError("--class-weight must not be negative")
    if not any(weights.values()):
        raise BadInputError("--class-weight must leave at least one label a weight above zero")
    return tuple(exact(weights[label]) for label in labels)


def check_outputs(outputs: Mapping[str, Path | None], *, inputs: Sequence[Path | None] = ()) -> None:
    """Refuse outputs that cannot be written, before hours are spent on them; they are named by their options."""
    taken: dict[Path, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        check_writable(path, option, inputs=inputs)
        place = path.resolve()
        if place in taken and (place.is_file() or not place.exists()):
            raise BadInputError(f"{taken[place]} and {option} name the same file")
        taken[place] = option


def check_writable(path: Path | None, option: str, *, inputs: Sequence[Path | None] = ()) -> None:
    """Refuse an output that cannot be written before hours are spent on it."""
    if path is None:
        return
    folder = path.resolve().parent
    if path.is_dir():
        reason = "it is a folder"
    elif any(given is not None and path.exists() and given.exists() and path.samefile(given) for given in inputs):
        reason = "it is one of the files to be read"
    elif not folder.is_dir():
        reason = "its folder does not exist"
    elif path.exists() and not path.is_file():
        if os.access(path, os.W_OK):
            return
        reason = "permission denied"
    else:
        try:
            try_beside(path.resolve())
        except OSError as error:
            reason = (error.strerror or "input/output error").lower()
        else:
            return
    msg = f"cannot write {path} ({option}): {reason}"
    raise BadInputError(msg)
