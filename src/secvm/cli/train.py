"""``secvm train``: rounds over a file of people, offline, and what came of them."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from secvm.cli import options, plots
from secvm.cli.output import Format, FormatOption, emit, note, progress, write_atomically
from secvm.errors import BadInputError
from secvm.estimator.fitting import Evaluator, Fitted, fit_rounds
from secvm.estimator.model import Model
from secvm.estimator.thinning import parse_thinning
from secvm.estimator.training import OfflineTraining, Population
from secvm.learning.aggregate.convergence import Plateau
from secvm.learning.aggregate.scoring import Score, Share, score
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import Binning, HashBinning
from secvm.learning.rows import BinnedRows
from secvm.learning.thinning import ALWAYS
from secvm.learning.weights import Weights
from secvm.people.reader import read_people, read_split
from secvm.people.table import People

#: Share of training people held out when a plateau is to be seen.
HELD_OUT = "1/10"


def train(
    people: Annotated[Path, typer.Argument(help="JSON lines or svmlight, .gz or plain.", show_default=False)],
    test: Annotated[Path | None, typer.Option(help="File of test people.")] = None,
    test_fraction: Annotated[str | None, typer.Option(help="Share of PEOPLE to test on, e.g. 0.1.")] = None,
    split_file: Annotated[Path | None, typer.Option(help="One word, train or test, per person and line.")] = None,
    bins: Annotated[str, typer.Option(help="Number of hash bins, or none for unhashed features.")] = "none",
    hashes: Annotated[int, typer.Option(help="Bins per feature.")] = 1,
    vocabulary: Annotated[Path | None, typer.Option(help="A word a line: these words are the bins.")] = None,
    values: Annotated[str, typer.Option(help="counts, or presence: every feature counts 1.")] = "counts",
    salt: Annotated[str | None, typer.Option(help="Salt of the hash in hexadecimal; default: from the seed.")] = None,
    descent: Annotated[
        str, typer.Option(help="pegasos (the paper's) or swift (few rounds, few packages).")
    ] = "pegasos",
    thinning: Annotated[
        str, typer.Option(help="RHO (swift), q=Q (pegasos), none, or auto: 3 for swift, none for pegasos.")
    ] = "auto",
    lambda_: Annotated[
        str | None, typer.Option("--lambda", help="Regularisation of pegasos; default 1e-4, for numbers 0.1.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Rounds to train for; default 100, for numbers 400.", min=1, show_default=False)
    ] = None,
    averaging: Annotated[
        int | None, typer.Option(help="Weight vectors averaged (pegasos); default 2, for numbers 8.")
    ] = None,
    step_cap: Annotated[
        str | None, typer.Option(help="Remedy for pegasos' two-cycle: most that the mean score may move, e.g. 0.5.")
    ] = None,
    decay: Annotated[str | None, typer.Option(help="Share of the weights swift forgets a round, e.g. 0.05.")] = None,
    class_weight: Annotated[list[str] | None, typer.Option(help="LABEL=W, may be repeated; or balanced.")] = None,
    loss: Annotated[
        str,
        typer.Option(
            help="hinge, perceptron, logistic, squared-hinge, modified-huber; for numbers as labels "
            "epsilon-insensitive, pinball."
        ),
    ] = "hinge",
    loss_parameter: Annotated[str | None, typer.Option(help="Clip, epsilon or quantile of the loss.")] = None,
    multiclass: Annotated[str, typer.Option(help="ovr (one-vs-rest) or ovo (one-vs-one).")] = "ovr",
    stop: Annotated[str, typer.Option(help="none, or plateau: a tenth of the people decides when to stop.")] = "none",
    seed: Annotated[int, typer.Option(help="Seed of split, salt and dice.")] = 1,
    threads: Annotated[int, typer.Option(help="Threads; the result does not depend on it.", min=1)] = 1,
    out: Annotated[Path | None, typer.Option(help="Write the model here.")] = None,
    curve: Annotated[Path | None, typer.Option(help="Write round and test score as CSV here.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the curve as PNG here.")] = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Train on a file of people, offline.

    A person is a line: {"label": "f", "features": ["word", ...]} or {"label": "f", "features": {"word": 3, ...}};
    or an svmlight line. Example:

    \b
        ./secvm train examples/people.jsonl --test-fraction 0.25 --bins 500 --rounds 200 --out model.secvm
        ./secvm train examples/people.jsonl --test-fraction 0.25 --descent swift --rounds 10 --format json
    """
    started = time.monotonic()
    _check_words(values=values, descent=descent, multiclass=multiclass, stop=stop)
    if sum(given is not None for given in (test, test_fraction, split_file)) > 1:
        raise BadInputError("--test, --test-fraction and --split-file exclude each other")
    if test is None and test_fraction is None and split_file is None and (curve is not None or plot is not None):
        raise BadInputError("a curve needs people to test on: give --test, --test-fraction or --split-file")
    for path, option in ((out, "--out"), (curve, "--curve"), (plot, "--plot")):
        options.check_writable(path, option)
    if plot is not None:
        plots.pyplot()  # refuses now, not after the rounds, where matplotlib is not installed
    the_loss = options.loss(loss, loss_parameter)
    rule = options.RuleOptions(descent, lambda_, averaging, step_cap, decay, regression=the_loss.regression).rule()
    rounds = rounds or options.default_rounds(the_loss)
    if lambda_ is not None and descent == "swift":
        note("secvm: swift has no lambda; --lambda changes nothing")
    thin = parse_thinning(thinning, descent)
    dice_seed = options.seed_bytes(seed)
    wanted = options.binning(bins, hashes, vocabulary, options.salt_bytes(salt, seed))

    folk = _read(people, wanted, presence=values == "presence")
    if split_file is not None:
        in_train = read_split(split_file, len(folk))
    elif test_fraction is not None:
        in_train = options.hold_out(len(folk), test_fraction, dice_seed)
    else:
        in_train = np.ones(len(folk), dtype=np.bool_)
    testers = _read(test, folk.binning, presence=values == "presence") if test is not None else None

    common: dict[str, Any] = {
        "n_bins": folk.binning.n_bins,
        "rule": rule,
        "loss": the_loss,
        "thinning": thin,
        "fixed_point_rows": rule.normalised and not thin.active,
    }
    job = _Regression if the_loss.regression else _Classification
    work = job(folk, in_train, testers, common, class_weight or [], multiclass, rounds)
    options.check_memory(folk.binning.n_bins, work.experiment.models.n_models)
    fitted = work.run(dice_seed, rounds=rounds, stop=stop, threads=threads)

    result = work.report(fitted)
    result |= _about(work, fitted, folk, descent=descent, seed=seed)
    model = Model(
        experiment=work.experiment,
        binning=folk.binning,
        weights=fitted.weights,
        presence=values == "presence",
        rounds=fitted.rounds,
    )
    # The picture is drawn before anything is written: if it cannot be, nothing is.
    picture = b""
    if plot is not None:
        picture = plots.draw_curve(work.curve, measure=work.measure, n_test=work.n_test, result=result)
    if out is not None:
        write_atomically(out, model.to_bytes())
        result["model"] = str(out)
    if curve is not None:
        lines = [f"round,{work.measure}", *(f"{r},{v:.6f}" for r, v in work.curve)]
        write_atomically(curve, ("\n".join(lines) + "\n").encode())
    if plot is not None:
        write_atomically(plot, picture)
    result["seconds"] = round(time.monotonic() - started, 3)
    result["peak_rss_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
    emit(result, output_format, text=_as_text(result))


def _check_words(*, values: str, descent: str, multiclass: str, stop: str) -> None:
    allowed = {
        "--values": (values, ("counts", "presence")),
        "--descent": (descent, ("pegasos", "swift")),
        "--multiclass": (multiclass, ("ovr", "ovo")),
        "--stop": (stop, ("none", "plateau")),
    }
    for option, (word, words) in allowed.items():
        if word not in words:
            msg = f"{option} must be {' or '.join(words)}, not '{word}'"
            raise BadInputError(msg)


def _read(path: Path, binning: Binning | None, *, presence: bool) -> People:
    with progress(f"reading {path.name}", 100) as advance:
        shown = 0

        def moved(done: int, total: int) -> None:
            nonlocal shown
            percent = 100 * done // max(1, total)
            advance(percent - shown)
            shown = percent

        count = isinstance(binning, HashBinning)
        return read_people(path, binning, presence=presence, count_features=count, on_progress=moved)


class _Work:
    """One training job: population, held-out people, test people and their curve."""

    measure: str
    experiment: Experiment
    people: Population
    test: Evaluator | None = None
    n_test: int = 0

    def __init__(self, folk: People, in_train: NDArray[np.bool_]) -> None:
        self.curve: list[tuple[int, float]] = []
        self.last: Any = None
        self.n_train = int(in_train.sum())
        if self.n_train == 0:
            raise BadInputError("there is nobody to train on")

    def run(self, dice_seed: bytes, *, rounds: int, stop: str, threads: int) -> Fitted:
        """All rounds."""
        training = OfflineTraining(self.experiment, seed=dice_seed, threads=threads)
        people, held_out, plateau = self.people, None, None
        if stop == "plateau":
            train = options.hold_out(len(people), HELD_OUT, dice_seed, option="--stop plateau")
            held_out, plateau = self.held_out(np.flatnonzero(~train), threads), Plateau()
            people = Population(rows=people.rows, labels=people.labels, targets=people.targets, train=train)
        self.prepare_test(threads)
        with progress("training", rounds) as advance:

            def on_round(number: int, weights: Weights) -> None:
                if self.test is not None:
                    self.curve.append((number, self.measure_test(weights)))
                advance(1)

            fitted = fit_rounds(training, people, rounds=rounds, held_out=held_out, plateau=plateau, on_round=on_round)
        if self.test is not None:
            self.measure_test(fitted.weights)
        return fitted

    def prepare_test(self, threads: int) -> None:
        """Lay the test people out."""
        raise NotImplementedError

    def measure_test(self, weights: Weights) -> float:
        """The curve's value, and ``last`` for the report."""
        raise NotImplementedError

    def held_out(self, where: NDArray[np.int64], threads: int) -> Any:
        """Weights → (right, of) on people who do not train."""
        raise NotImplementedError

    def report(self, fitted: Fitted) -> dict[str, Any]:
        """The first part of the result."""
        raise NotImplementedError


class _Classification(_Work):
    measure = "accuracy"

    def __init__(
        self,
        folk: People,
        in_train: NDArray[np.bool_],
        testers: People | None,
        common: dict[str, Any],
        class_weight: list[str],
        multiclass: str,
        rounds: int,
    ) -> None:
        super().__init__(folk, in_train)
        train_codes = folk.label_codes[in_train]
        used = np.unique(train_codes)
        labels = tuple(folk.label_names[c] for c in used)
        if len(labels) < 2:
            raise BadInputError("training needs people of at least two labels, and there is only one")
        counts = np.bincount(np.searchsorted(used, train_codes), minlength=len(labels))
        weights = options.class_weights(class_weight, labels, counts)
        where = np.flatnonzero(in_train)
        rows = folk.rows if len(where) == len(folk) else folk.rows.take(where)
        factors = common["loss"].factors
        uneven = bool(weights) or factors[0] != factors[1]
        common = {**common, **_for_signed(common, signed=_is_signed(rows), uneven=uneven)}
        self.experiment = Experiment(labels=labels, class_weights=weights, multiclass=multiclass, **common)
        self.people = Population(rows=rows, labels=np.searchsorted(used, train_codes).astype(np.int64))
        if testers is not None:
            self._test_rows, texts = testers.rows, [testers.label_names[c] for c in testers.label_codes]
        else:
            outside = np.flatnonzero(~in_train)
            self._test_rows, texts = folk.rows.take(outside), [folk.label_names[c] for c in folk.label_codes[outside]]
        place = {label: i for i, label in enumerate(labels)}
        if not set(texts) <= set(place):
            raise BadInputError("a test person has a label that no training person has")
        self._truth = np.array([place[t] for t in texts], dtype=np.int64)
        self.n_test = len(texts)

    def prepare_test(self, threads: int) -> None:
        if self.n_test:
            self.test = Evaluator(self.experiment, self._test_rows, threads=threads)

    def measure_test(self, weights: Weights) -> float:
        assert self.test is not None
        self.last = score(self.test.cells(weights, self._truth))
        return float(self.last.accuracy.value)

    def held_out(self, where: NDArray[np.int64], threads: int) -> Any:
        evaluator = Evaluator(self.experiment, self.people.rows.take(where), threads=threads)
        truth = self.people.labels[where]
        return lambda weights: (int((evaluator.labels(weights) == truth).sum()), len(truth))

    def report(self, fitted: Fitted) -> dict[str, Any]:
        return classification_report(self.last, self.experiment.labels)


class _Regression(_Work):
    measure = "mae"

    def __init__(
        self,
        folk: People,
        in_train: NDArray[np.bool_],
        testers: People | None,
        common: dict[str, Any],
        class_weight: list[str],
        multiclass: str,
        rounds: int,
    ) -> None:
        from secvm.estimator.targets import fixed_targets, target_scale

        super().__init__(folk, in_train)
        if class_weight:
            raise BadInputError("--class-weight needs labels that are classes, not numbers")
        numbers = folk.numeric_labels()
        y = numbers[in_train]
        centre, spread = target_scale(y, np.ones(len(y)))
        factors = common["loss"].factors
        where, outside = np.flatnonzero(in_train), np.flatnonzero(~in_train)
        rows = folk.rows.take(where)
        common = {**common, **_for_signed(common, signed=_is_signed(rows), uneven=factors[0] != factors[1])}
        self.experiment = Experiment(labels=("number",), target_centre=centre, target_spread=spread, **common)
        self.people = Population(
            rows=rows,
            labels=np.zeros(len(where), dtype=np.int64),
            targets=fixed_targets(y, self.experiment),
        )
        self._test_rows = testers.rows if testers is not None else folk.rows.take(outside)
        self._truth = testers.numeric_labels() if testers is not None else numbers[outside]
        self.n_test = len(self._truth)

    def prepare_test(self, threads: int) -> None:
        if self.n_test:
            self.test = Evaluator(self.experiment, self._test_rows, threads=threads)

    def measure_test(self, weights: Weights) -> float:
        assert self.test is not None
        self.last = regression_report(self.test.numbers(weights), self._truth)
        return float(self.last["mae"])

    def held_out(self, where: NDArray[np.int64], threads: int) -> Any:
        evaluator = Evaluator(self.experiment, self.people.rows.take(where), threads=threads)
        assert self.people.targets is not None
        truth = self.people.targets[where] / 2.0**32
        return lambda weights: (int((np.abs(evaluator.values(weights)[:, 0] - truth) <= 0.5).sum()), len(truth))

    def report(self, fitted: Fitted) -> dict[str, Any]:
        return dict(self.last) if self.last else {"mae": None, "r2": None}


def _is_signed(rows: BinnedRows) -> bool:
    """Whether somebody who trains has a negative value; test people have no say in the model."""
    return bool(rows.values.size) and int(rows.values.min()) < 0


def _for_signed(common: dict[str, Any], *, signed: bool, uneven: bool) -> dict[str, Any]:
    """What negative values change: see ``Experiment.weighted_updates`` and ``Swift.mean_move``."""
    if not signed:
        return {}
    from dataclasses import replace
    from fractions import Fraction

    rule = common["rule"]
    if rule.normalised:
        rule = replace(rule, mean_move=Fraction(10**6))
    return {"rule": rule, "weighted_updates": uneven}


def classification_report(result: Score | None, labels: tuple[str, ...]) -> dict[str, Any]:
    """Accuracy, recall, precision and baseline with their intervals; None where nobody was tested."""
    if result is None:
        return {"accuracy": None, "recall": None, "precision": None}

    def each(shares: tuple[Share, ...]) -> dict[str, float | None]:
        return {label: _number(share.value) for label, share in zip(labels, shares, strict=True)}

    def intervals(shares: tuple[Share, ...]) -> dict[str, list[float]]:
        return {label: list(share.interval) for label, share in zip(labels, shares, strict=True)}

    return {
        "accuracy": _number(result.accuracy.value),
        "accuracy_interval": list(result.accuracy.interval),
        "recall": each(result.recall),
        "recall_interval": intervals(result.recall),
        "precision": each(result.precision),
        "precision_interval": intervals(result.precision),
        "baseline": each(result.baseline),
    }


def regression_report(predicted: NDArray[np.float64], truth: NDArray[np.float64]) -> dict[str, Any]:
    """Mean absolute error and the coefficient of determination."""
    residual = truth - predicted
    total = float(((truth - truth.mean()) ** 2).sum())
    r2 = 1 - float((residual**2).sum()) / total if total else None
    return {"mae": float(np.abs(residual).mean()), "r2": r2}


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value


def _about(work: _Work, fitted: Fitted, folk: People, *, descent: str, seed: int) -> dict[str, Any]:
    """The second part of the result: what was trained, and how it went."""
    binning = folk.binning
    about: dict[str, Any] = {
        "n_train": work.n_train,
        "n_test": work.n_test,
        "features": folk.n_features if folk.n_features is not None else binning.n_bins,
        "bins": binning.n_bins,
        "rounds": fitted.rounds,
        "kept_round": fitted.kept_round,
        "curve": [list(point) for point in work.curve],
        "stopped_because": fitted.stopped_because,
        "two_cycle": fitted.two_cycle,
        "two_cycle_spells": [list(spell) for spell in fitted.two_cycle_spells],
        "packages_per_person": fitted.packages / work.n_train,
        "descent": descent,
        "thinning": str(work.experiment.thinning),
        "loss": work.experiment.loss.name,
        "seed": seed,
    }
    if work.experiment.thinning.rho is not None:
        keep = work.experiment.thinning.keep53(work.people.rows.squared_norms.tolist())
        about["clipped_share"] = float((keep == ALWAYS).mean())
    if isinstance(binning, HashBinning):
        about["salt"] = binning.salt.hex()
        about["hashes"] = binning.n_hashes
    return about


def _as_text(result: dict[str, Any]) -> str:
    """The result for people: the headline first, then what it stands on."""
    lines = []
    if result.get("accuracy") is not None:
        low, high = result["accuracy_interval"]
        lines.append(f"accuracy {result['accuracy']:.4f}  (95 %: {low:.4f} to {high:.4f}), {result['n_test']} people")
        width = max(len(label) for label in result["recall"])
        lines.append(f"{'label':{width}}  recall  precision  share")
        for label, recall in result["recall"].items():
            cells = [recall, result["precision"][label], result["baseline"][label]]
            shown = ["  -  " if c is None else f"{c:.4f}" for c in cells]
            lines.append(f"{label:{width}}  {shown[0]}  {shown[1]:9}  {shown[2]}")
    elif result.get("mae") is not None:
        r2 = "-" if result["r2"] is None else f"{result['r2']:.4f}"  # of equal labels there is none
        lines.append(f"mean absolute error {result['mae']:.6g}, r2 {r2}, {result['n_test']} people")
    else:
        lines.append("nobody was tested: give --test, --test-fraction or --split-file")
    lines.append(
        f"{result['n_train']} people trained {result['rounds']} rounds with {result['descent']}: "
        f"{result['features']} features in {result['bins']} bins, "
        f"{result['packages_per_person']:.1f} packages per person in all"
    )
    if result["stopped_because"] == "plateau":
        lines.append(f"stopped at a plateau; the model of round {result['kept_round']} was kept")
    if result["two_cycle"]:
        lines.append("caught in a two-cycle: the model swings between two answers; try --step-cap 0.5 or swift")
    if "model" in result:
        lines.append(f"model: {result['model']}")
    lines.append(f"{result['seconds']:.1f} s, {result['peak_rss_mb']:.0f} MB")
    return "\n".join(lines)
