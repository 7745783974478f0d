"""``secvm train``: rounds over a file of people, offline, and what came of them."""

from __future__ import annotations

import resource
import time
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from secvm.cli.offline import options, train_privacy
from secvm.cli.offline.options import ThreadsOption
from secvm.cli.offline.people import LabelOption, PeopleArgument, read_to_train
from secvm.cli.offline.results import headline
from secvm.cli.output import Format, FormatOption, emit, progress
from secvm.errors import BadInputError
from secvm.estimator.fitting import Fitted
from secvm.estimator.model import ModelFile
from secvm.estimator.offline_run import OfflineRun, run_of_classes, run_of_numbers
from secvm.files import write_together
from secvm.learning.aggregate.descent import RULES, Pegasos, Swift
from secvm.learning.aggregate.scoring import Share
from secvm.learning.individual.binning import HashBinning
from secvm.learning.individual.dice import hold_out
from secvm.learning.losses import Hinge
from secvm.learning.package import MAX_ROUNDS
from secvm.learning.thinning import ALWAYS, Thinning, parse_thinning
from secvm.pages.figure import Curve, Figure, ReferenceLine, Shade
from secvm.pages.pictures import check_drawable, picture
from secvm.people.columns import has_columns
from secvm.people.person import People
from secvm.people.reader import read_split

#: Share of training people held out when a plateau is to be seen.
HELD_OUT = Fraction(1, 10)
# The options, by what they are about.
_test = partial(typer.Option, rich_help_panel="Who tests")
_features = partial(typer.Option, rich_help_panel="Features")
_training = partial(typer.Option, rich_help_panel="Training")
_output = partial(typer.Option, rich_help_panel="Files to write")


def _usual(what: str, constant: str) -> str:
    return f"{what}; default: {options.usual(constant)}."


def train(
    people: PeopleArgument,
    test: Annotated[Path | None, _test(help="File of test people.")] = None,
    test_fraction: Annotated[str | None, _test(help="Share of PEOPLE to test on, e.g. 0.25.", metavar="SHARE")] = None,
    split_file: Annotated[Path | None, _test(help="A line for each person: train or test.")] = None,
    label: LabelOption = None,
    bins: Annotated[str, _features(help="Hash bins; none: a bin for each feature.", metavar="N|none|auto")] = "auto",
    hashes: Annotated[int, _features(help="Bins of each feature.", metavar="N")] = 1,
    vocabulary: Annotated[Path | None, _features(help="A word a line: these are the bins.")] = None,
    values: Annotated[str, _features(help="presence: each counts 1.", metavar="auto|counts|presence")] = "auto",
    salt: Annotated[str | None, _features(help="Of the hash; else from the seed.", metavar="HEX")] = None,
    descent: Annotated[
        str,
        _training(help="auto: swift, for numbers as labels pegasos; or a package's.", metavar="swift|pegasos|auto"),
    ] = "auto",
    rounds: Annotated[str, _training(help=options.usual_rounds(), metavar="N|auto")] = "auto",
    loss: Annotated[
        str,
        _training(
            help=f"{options.losses(regression=False)}; for numbers as labels {options.losses(regression=True)}.",
            metavar="LOSS",
        ),
    ] = Hinge.name,
    loss_parameter: Annotated[
        str | None, _training(help="Clip, epsilon or quantile of the loss.", metavar="NUMBER")
    ] = None,
    class_weight: Annotated[
        list[str] | None, _training(help="May be repeated; or balanced.", metavar="LABEL=W")
    ] = None,
    multiclass: Annotated[str, _training(help="One-vs-rest or one-vs-one.", metavar="ovr|ovo")] = "ovr",
    stop: Annotated[str, _training(help="plateau: a tenth decides when to stop.", metavar="none|plateau")] = "none",
    thinning: Annotated[
        str, _training(help="auto: none, and with --epsilon as planned.", metavar="RHO|q=Q|none|auto")
    ] = "auto",
    lambda_: Annotated[
        str | None, _training("--lambda", help=_usual("Regularisation", "lambda"), metavar="NUMBER")
    ] = None,
    averaging: Annotated[
        int | None, _training(help=_usual("Weight vectors averaged", "averaging"), metavar="N")
    ] = None,
    step_cap: Annotated[
        str | None, _training(help="Of pegasos: most that the mean score may move, e.g. 0.5.", metavar="NUMBER")
    ] = None,
    decay: Annotated[
        str | None, _training(help="Of swift: share of the weights forgotten a round.", metavar="NUMBER")
    ] = None,
    epsilon: train_privacy.EpsilonOption = None,
    delta: train_privacy.DeltaOption = train_privacy.DELTA,
    contribution: train_privacy.ContributionOption = None,
    noise: train_privacy.NoiseOption = train_privacy.NOISE,
    out: Annotated[Path | None, _output(help="The model; unhashed, it holds every word of those who train.")] = None,
    curve: Annotated[Path | None, _output(help="Round and test score, as CSV.")] = None,
    plot: Annotated[Path | None, _output(help="The curve, as PNG.")] = None,
    output_format: FormatOption = Format.TXT,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Of split, salt and dice.",
            metavar="N",
            show_default=f"{train_privacy.USUAL_SEED}; with --epsilon one that nobody knows",
        ),
    ] = None,
    threads: ThreadsOption = 1,
) -> None:
    """Train on a file of people, offline.

    A person is a line, {"label": "f", "features": ["word", ...]} or {"label": "f", "features": {"word": 3, ...}}; a
    line of svmlight; or a row of CSV or Parquet, where --label names a column. Examples:

    \b
        ./secvm train examples/people.jsonl --test-fraction 0.25 --out model.secvm
        ./secvm train examples/people.jsonl --test-fraction 0.25 --bins 40 --contribution 10 --epsilon 4 --delta 1e-4
    """
    started = time.monotonic()
    told_seed, seed = seed, train_privacy.seed_of(seed, private=epsilon is not None)
    dice_seed = options.seed_bytes(seed)
    private = train_privacy.asked(
        epsilon,
        delta,
        contribution,
        rounds=None if rounds == "auto" else options.whole(rounds, "--rounds", MAX_ROUNDS),
        thinning=thinning,
        hashes=hashes,
        seed=dice_seed,
        noise=noise,
    )
    the_loss = options.loss(loss, loss_parameter)
    if descent == "auto":
        descent = Pegasos.name if the_loss.regression and private is None else Swift.name
    train_privacy.check(
        private,
        noise,
        descent=descent,
        bins=bins,
        vocabulary=vocabulary,
        stop=stop,
        constants={"--lambda": lambda_, "--averaging": averaging, "--step-cap": step_cap, "--decay": decay},
        class_weight=class_weight,
        loss=loss,
    )
    _check_words(values=values, descent=descent, multiclass=multiclass, stop=stop)
    tests = [given for given in (test, test_fraction, split_file) if given is not None]
    if len(tests) > 1:
        raise BadInputError("--test, --test-fraction and --split-file exclude each other")
    if not tests and (curve is not None or plot is not None):
        raise BadInputError("a curve needs people to test on: give --test, --test-fraction or --split-file")
    options.check_outputs(
        {"--out": out, "--curve": curve, "--plot": plot}, inputs=(people, test, split_file, vocabulary)
    )
    if plot is not None:
        check_drawable()  # now, not after the rounds
    rule = options.RuleOptions(descent, lambda_, averaging, step_cap, decay, regression=the_loss.regression).rule()
    planned = options.rounds(rounds, rule, regression=the_loss.regression)
    thin = parse_thinning("auto" if private is not None else thinning, Thinning())
    hashing = options.salt_bytes(salt, seed)
    if values == "auto" and (the_loss.regression or not has_columns(people)):
        values = "counts"  # as the estimators take words, and as the regressor takes numbers

    read = read_to_train(
        people,
        lambda usual: options.binning(bins, hashes, vocabulary, hashing, usual=None if private is None else usual),
        label=label,
        values=values if private is None else "one-per-bin",
        who_trains=lambda n: _who_trains(n, split_file, test_fraction, dice_seed),
    )
    folk, in_train = read.folk, read.in_train
    private = train_privacy.of_people(private, contribution, read)
    testers = None if test is None else read.testers(test)

    if the_loss.regression:
        if class_weight:
            raise BadInputError("--class-weight needs labels that are classes, not numbers")
        work = run_of_numbers(
            folk,
            in_train,
            testers,
            rule=rule,
            loss=the_loss,
            thinning=thin,
            relative_epsilon=loss_parameter is None,
        )
    else:
        options.check_classes([folk.label_names[code] for code in set(folk.label_codes[in_train].tolist())], private)
        work = run_of_classes(
            folk,
            in_train,
            testers,
            rule=rule,
            loss=the_loss,
            thinning=thin,
            multiclass=multiclass,
            class_weights=lambda labels, counts: options.class_weights(class_weight or [], labels, counts),
            private=private,
        )
    planned = train_privacy.begin(work, private, noise, planned, seed)
    options.check_memory(folk.binning.n_bins, work.experiment.models.n_models)
    held_out = None
    if stop == "plateau":
        held_out = ~hold_out(len(work.people), HELD_OUT, dice_seed, name="--stop plateau")
    with progress("training", planned) as advance:
        fitted = work.run(dice_seed, rounds=planned, threads=threads, held_out=held_out, on_round=lambda _: advance(1))

    n_held_out = 0 if held_out is None else int(held_out.sum())
    result = work.report | train_privacy.content(work, noise)
    about = _about(work, fitted, folk, n_held_out=n_held_out, descent=descent)
    result |= train_privacy.covered(about, work, noise) | {"seed": seed if private is None else told_seed}
    model = ModelFile(
        experiment=work.experiment,
        binning=folk.binning,
        weights=fitted.weights,
        presence=values == "presence" or private is not None,
        one_per_bin=private is not None,
        rounds=fitted.training.round_number,
        frame=read.frame,
        columns=None if read.frame is None else tuple(read.frame.names),
    )
    _write(work, model, result, out=out, curve=curve, plot=plot)
    result["seconds"] = round(time.monotonic() - started, 3)
    result["peak_rss_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
    emit(result, output_format, text=_as_text(result))


def _who_trains(n: int, split_file: Path | None, test_fraction: str | None, seed: bytes) -> NDArray[np.bool_]:
    """True for those who train; without any option, everybody."""
    if split_file is not None:
        return read_split(split_file, n)
    if test_fraction is not None:
        share = options.number(test_fraction, "--test-fraction")
        return hold_out(n, share, seed, name="--test-fraction")
    return np.ones(n, dtype=np.bool_)


def _write(
    work: OfflineRun,
    model: ModelFile,
    result: dict[str, Any],
    *,
    out: Path | None,
    curve: Path | None,
    plot: Path | None,
) -> None:
    """The files that were asked for: all of them or, if one cannot be written, none."""
    contents: dict[Path, bytes] = {}
    if plot is not None:
        contents[plot] = picture(_drawing(work, result))
    if curve is not None:
        lines = [f"round,{work.measure}", *(f"{r},{v:.6f}" for r, v in work.curve)]
        contents[curve] = ("\n".join(lines) + "\n").encode()
    if out is not None:
        contents[out] = model.to_bytes()
        result["model"] = str(out)
    write_together(contents)


def _drawing(work: OfflineRun, result: dict[str, Any]) -> Figure:
    """Test score by round, with the 95 % interval of an accuracy and its baseline."""
    rounds, scores = zip(*work.curve, strict=True)
    curve, rules = Curve(f"test {work.measure}", rounds, scores), list[ReferenceLine]()
    if work.measure == "accuracy":
        ends = [Share(round(score * len(work.test_rows)), len(work.test_rows)).interval for score in scores]
        curve = replace(curve, low=[low for low, _ in ends], high=[high for _, high in ends])
        rules = [ReferenceLine("largest label's share", max(result["baseline"].values()))]
    return Figure(
        "curve",
        title=f"{result['descent']}, {result['bins']:,} bins, {result['n_train']:,} people",
        description=f"Test {work.measure} by round.",
        across="round",
        up=work.measure,
        curves=[curve],
        rules=rules,
        shades=[Shade(low, high, "two-cycle") for low, high in result["two_cycle_spells"] if low <= rounds[-1]],
    )


def _check_words(*, values: str, descent: str, multiclass: str, stop: str) -> None:
    allowed = {
        "--values": (values, ("auto", "counts", "presence")),
        "--descent": (descent, tuple(RULES)),
        "--multiclass": (multiclass, ("ovr", "ovo")),
        "--stop": (stop, ("none", "plateau")),
    }
    for option, (word, words) in allowed.items():
        if word not in words:
            msg = f"{option} must be {' or '.join(words)}, not '{word}'"
            raise BadInputError(msg)


def _about(work: OfflineRun, fitted: Fitted, folk: People, *, n_held_out: int, descent: str) -> dict[str, Any]:
    """The second part of the result: what was trained, and how it went."""
    binning = folk.binning
    about: dict[str, Any] = {
        "n_train": len(work.people) - n_held_out,
        "n_held_out": n_held_out,
        "n_test": len(work.test_rows),
        "features": folk.n_features if folk.n_features is not None else binning.n_bins,
        "bins": binning.n_bins,
        "rounds": fitted.training.round_number,
        "kept_round": fitted.kept_round,
        "curve": [list(point) for point in work.curve],
        "stopped_because": fitted.stopped_because,
        "two_cycle": fitted.training.two_cycle.caught,
        "two_cycle_spells": [list(spell) for spell in fitted.training.two_cycle.spells],
        "packages_per_person": fitted.training.packages_sent / (len(work.people) - n_held_out),
        "descent": descent,
        "thinning": str(work.experiment.thinning),
        "loss": work.experiment.loss.name,
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
    lines = headline(result)
    features, sent = result["features"], result["packages_per_person"]
    lines.append(
        f"{result['n_train']} people trained {result['rounds']} rounds with {result['descent']}: "
        + (f"{features} features in " if features is not None else "")
        + f"{result['bins']} bins"
        + (f", {sent:.1f} packages per person in all" if sent is not None else "")
    )
    if "privacy" in result:
        lines.append(train_privacy.as_text(result["privacy"]))
        if result["n_test"]:
            lines.append("the figures of those who test are exact: the promise is to those who train")
    if result["stopped_because"] == "plateau":
        lines.append(f"stopped at a plateau; the model of round {result['kept_round']} was kept")
    if result["two_cycle"]:
        lines.append("caught in a two-cycle: the model swings between two answers; try --step-cap 0.5 or swift")
    if "model" in result:
        lines.append(f"model: {result['model']}")
    lines.append(f"{result['seconds']:.1f} s, {result['peak_rss_mb']:.0f} MB")
    return "\n".join(lines)
