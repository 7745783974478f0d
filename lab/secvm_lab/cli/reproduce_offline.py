"""``secvm reproduce offline``: the paper's offline evaluation, on its own scale or on a file of people."""

from __future__ import annotations

import contextlib
import importlib.util
import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secvm.cli.offline import options
from secvm.cli.output import Format, FormatOption, emit, note, progress
from secvm.errors import BadInputError, NotInstalledError
from secvm_lab.cli.time_left import as_typed, used

if TYPE_CHECKING:
    from secvm_lab.paper.offline.crowd import Crowd
    from secvm_lab.paper.offline.settings import Settings
    from secvm_lab.paper.offline.splits import Splits
    from secvm_lab.paper.offline.training import Sweeper

#: People where none are asked for: every figure in a few minutes on two cores.
DEFAULT_PEOPLE = 5_000
#: The paper's number of splits.
DEFAULT_SPLITS = 141
#: Far more than fit: made-up people take hours beyond the paper's 350,000, and splits are all held in memory.
MAX_PEOPLE = 10_000_000
MAX_SPLITS = 10_000
#: Seeds stand in JSON, where integers have 64 bits.
MAX_SEED = 2**63 - 1


class Figure(StrEnum):
    """What to make."""

    F1A = "1a"
    F1B = "1b"
    LAMBDA = "lambda"
    HASHES = "hashes"
    RULES = "rules"
    BASELINES = "baselines"
    ALL = "all"


class Device(StrEnum):
    """Where models are trained."""

    CPU = "cpu"
    CUDA = "cuda"


def offline(
    context: typer.Context,
    data: Annotated[
        Path | None, typer.Option(help="File of people with two labels: JSON lines or svmlight, .gz or plain.")
    ] = None,
    people: Annotated[
        int | None,
        typer.Option(help="Made-up people at the shape of the paper's data; default 5000.", min=20, max=MAX_PEOPLE),
    ] = None,
    splits: Annotated[
        int | None,
        typer.Option(
            help="Random splits, a tenth to test; default 141, or all of --split-file.", min=1, max=MAX_SPLITS
        ),
    ] = None,
    bins: Annotated[
        list[str] | None,
        typer.Option(
            help="Numbers of bins, none for unhashed; may be repeated or a list with commas. "
            "Default: a bin for each word, for 10, 100 and 1,000. Without --figure only 1b is made."
        ),
    ] = None,
    figure: Annotated[
        list[Figure] | None, typer.Option(help="What to make; may be repeated. Default: all, or 1b with --bins.")
    ] = None,
    rounds: Annotated[int, typer.Option(help="Rounds of Pegasos.", min=1, max=100_000)] = 100,
    lambda_: Annotated[str, typer.Option("--lambda", help="Regularisation, except where figures vary it.")] = "1e-4",
    hashes: Annotated[
        list[str] | None,
        typer.Option(help="Bins per feature, repeated or with commas; default 1, and 1,2,3 for figure hashes."),
    ] = None,
    split_file: Annotated[
        Path | None,
        typer.Option(
            help='Splits as JSON, read where it exists, else written: {"people": N, "seed": S, "splits": [[test '
            'people of split 0], ...], "halves": {"A": {"people": [...], "test": [...]}, "B": ...}}. A person is its '
            "position among the people, from 0."
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="Results, report.html, CSV and PNG go here; default: offline-NAME, by people and splits."),
    ] = None,
    threads: Annotated[int, typer.Option(help="Threads; the result does not depend on it.", min=1)] = 2,
    engine: Annotated[str, typer.Option(help="local, or dask: on many machines.")] = "local",
    scheduler: Annotated[str | None, typer.Option(help="Address of dask's scheduler.")] = None,
    device: Annotated[
        Device,
        typer.Option(help="Where Pegasos is trained; rules and baselines stay on the CPU. The result is the same."),
    ] = Device.CPU,
    seed: Annotated[int, typer.Option(help="Seed of people, splits, hash and dice.", min=0, max=MAX_SEED)] = 1,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Reproduce figure 1, the offline evaluation.

    Every finished model is kept in the folder: who is interrupted and asks again goes on from there. JSON has data,
    settings, figure_1a, figure_1b (a list: bins, n_hashes, mean, std, accuracies, best, still_rises, curve, two_cycle,
    recall, precision, ...), lambda, hashes, rules, baselines, statements, models, folder, seconds, peak_rss_mb.
    Example:

    \b
        ./secvm reproduce offline
        ./secvm reproduce offline --people 350000 --bins 95880 --device cuda --format json
        ./secvm reproduce offline --data people.jsonl.gz --split-file splits.json --figure 1b --bins none,1000
    """
    started = time.monotonic()
    if data is not None and people is not None:
        raise BadInputError("--data and --people exclude each other")
    if (engine == "dask") != (scheduler is not None) or engine not in ("local", "dask"):
        raise BadInputError("--engine is local, or dask together with --scheduler ADDRESS")
    if device is Device.CUDA and scheduler is not None:
        raise BadInputError("--device cuda trains on the GPU of this machine; leave --engine and --scheduler away")
    asked_bins = tuple(None if word == "none" else _whole(word, "--bins") for word in _words(bins, "--bins"))
    asked_hashes = tuple(_whole(word, "--hashes") for word in _words(hashes, "--hashes"))
    options.number(lambda_, "--lambda")

    from secvm_lab.paper.offline import baselines
    from secvm_lab.paper.offline.models import Stored
    from secvm_lab.paper.offline.report import lines, write
    from secvm_lab.paper.offline.run import Evaluation
    from secvm_lab.paper.offline.settings import Settings
    from secvm_lab.paper.offline.training import Trainer
    from secvm_lab.reports import check_folder

    crowd = _crowd(data, people, seed)
    drawn = _splits(crowd.n_people, splits, split_file, seed)
    settings = Settings(
        crowd=crowd,
        splits=drawn,
        figures=_figures(figure or [], bins_given=bool(asked_bins)),
        asked_bins=asked_bins,
        asked_hashes=asked_hashes,
        lambda_=lambda_,
        rounds=rounds,
        salt=options.salt_bytes(None, seed),
        seed=options.seed_bytes(seed),
        threads=threads,
    )
    if "baselines" in settings.figures:
        baselines.check(settings, crowd.labels())
    place = folder if folder is not None else Path(f"offline-{settings.name}")
    check_folder(place)
    with contextlib.ExitStack() as stack:
        # Nothing is written before everything that was asked for is known to make sense.
        sweeper = _sweeper(scheduler, device, settings, stack)
        stored = Stored(place, note)
        if split_file is not None and not split_file.exists():
            drawn.write(split_file)
        note(f"finished work is kept in {place}")
        trainer = Trainer(crowd, drawn, stored, sweeper, threads)
        evaluation = Evaluation(settings, trainer)
        advance = stack.enter_context(progress("rounds", evaluation.work()))
        found = evaluation.run(advance)
    told = {
        "models": {"asked": evaluation.asked, "computed": trainer.computed},
        "folder": str(place),
        **used(started),
    }
    emit(found | told, output_format, text="\n".join(lines(found | told)))
    missing = write(place, found, as_typed(context))
    if missing:
        note(missing)


def _words(given: Sequence[str] | None, option: str) -> list[str]:
    words = [word for item in given or () for word in item.split(",") if word]
    if given and not words:
        raise BadInputError(f"{option} names no number")
    return words


def _whole(word: str, option: str) -> int:
    if not word.isdecimal() or int(word) < 1:
        raise BadInputError(f"{option} takes whole numbers above zero, not '{word}'")
    return int(word)


def _figures(asked: Sequence[Figure], *, bins_given: bool) -> tuple[str, ...]:
    from secvm_lab.paper.offline.settings import FIGURES

    if not asked:
        return ("1b",) if bins_given else FIGURES
    return FIGURES if Figure.ALL in asked else tuple(name for name in FIGURES if name in asked)


def _crowd(data: Path | None, people: int | None, seed: int) -> Crowd:
    from secvm_lab.paper.offline.crowd import FileCrowd, MadeUpCrowd
    from secvm_lab.paper.twitter.people import TwitterPeople

    if data is not None:
        return FileCrowd.open(data)
    if people is None:
        note(f"{DEFAULT_PEOPLE} made-up people, for a few minutes; the paper had 350,000: --people 350000")
    return MadeUpCrowd(TwitterPeople(n_people=people or DEFAULT_PEOPLE), seed)


def _splits(n_people: int, asked: int | None, path: Path | None, seed: int) -> Splits:
    from secvm_lab.paper.offline.splits import Splits

    if path is None:
        return Splits.draw(n_people, asked or DEFAULT_SPLITS, seed)
    if not path.exists():
        options.check_writable(path, "--split-file")
        return Splits.draw(n_people, asked or DEFAULT_SPLITS, seed)
    found = Splits.read(path, n_people)
    if asked is not None and asked > len(found.tests):
        raise BadInputError(f"{path} has {len(found.tests)} splits, and --splits asks for {asked}")
    return found.first(asked or len(found.tests))


def _sweeper(scheduler: str | None, device: Device, settings: Settings, stack: contextlib.ExitStack) -> Sweeper:
    if device is Device.CUDA:
        from secvm_lab.engine.cuda.device import Gpu
        from secvm_lab.paper.offline.training import DeviceSweeper

        return DeviceSweeper(Gpu(), settings)
    if scheduler is None:
        from secvm_lab.paper.offline.training import LocalSweeper

        return LocalSweeper()
    if importlib.util.find_spec("distributed") is None:
        raise NotInstalledError("--engine dask", "distributed", "dask", distribution="./lab")
    from secvm_lab.cluster.sweep import ClusterSweep
    from secvm_lab.paper.offline.training import ClusterSweeper

    return ClusterSweeper(stack.enter_context(ClusterSweep(scheduler, notice=note)))
