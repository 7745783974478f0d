"""``secvm experiment``: ask a question of many devices, look at the answers, take the model home."""

from __future__ import annotations

import contextlib
import json
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secvm.cli.commands import group
from secvm.cli.output import Format, FormatOption, emit, note
from secvm.errors import BadInputError

if TYPE_CHECKING:
    from secvm.cli.experiment.remote import Remote, TrustedModel

app = group("Make experiments, watch them, and export their models.")

CoordinatorOption = Annotated[str, typer.Option("--coordinator", help="The coordinator's URL.", show_default=False)]
KeyOption = Annotated[Path, typer.Option("--admin-key-file", help="File that holds the admin key.", show_default=False)]
ExperimentArgument = Annotated[str, typer.Argument(help="Its digest, or how it begins.", show_default=False)]

_MOVE_HELP = """Example:

\b
    ./secvm experiment {} 3fa9 --coordinator http://127.0.0.1:8750 --admin-key-file admin.key"""


@app.command()
def new(
    specification: Annotated[Path, typer.Argument(help="What is asked, as TOML or JSON.", show_default=False)],
    coordinator: Annotated[str | None, typer.Option("--coordinator", help="The coordinator's URL.")] = None,
    admin_key_file: Annotated[
        Path | None, typer.Option("--admin-key-file", help="File that holds the admin key.")
    ] = None,
    vocabulary: Annotated[
        Path | None, typer.Option(help="A public list of words, one a line: these words are the bins.")
    ] = None,
    plan_only: Annotated[
        bool,
        typer.Option(
            "--plan-only", help="Only plan its guarantee and tell what it takes: no coordinator and no key are needed."
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before an experiment with a guarantee is published.")
    ] = False,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Make an experiment from a specification.

    docs/how-to/run-an-experiment.md explains every key of it. Unless it says privacy = "none", two relays' cover is
    planned for it: what that takes is told first, and you are asked. Example:

    \b
        ./secvm experiment new examples/experiment.toml --plan-only
        ./secvm experiment new examples/experiment.toml --coordinator http://127.0.0.1:8750 \\
            --admin-key-file admin.key
    """
    content = _specification(specification)
    if vocabulary is not None:
        content["binning"] = _vocabulary_bins(content.get("binning", {}), vocabulary)
    if plan_only:
        plan, lines = _planned(content)
        emit({"plan": plan}, output_format, text="\n".join(lines))
        return
    if coordinator is None or admin_key_file is None:
        raise BadInputError(
            "an experiment is made at a coordinator, with its admin key",
            next_step="Name both with --coordinator and --admin-key-file, or plan without them with --plan-only.",
        )
    plan, lines = _planned(content, publish=True)
    for line in lines:
        note(line)
    if plan is not None:
        _confirm(yes=yes)
    answer = _remote(coordinator, admin_key_file).order("", content)
    with _looked_into():
        text = f"{answer['digest']}  {answer['title']}\nbudget {answer['budget']} packages, {answer['rounds']} rounds"
        for remark in answer["remarks"]:
            note(remark)
    emit(answer | {"plan": plan}, output_format, text=text)


@app.command("list")
def list_(coordinator: CoordinatorOption, output_format: FormatOption = Format.TXT) -> None:
    """List all experiments of a coordinator.

    Example:

    \b
        ./secvm experiment list --coordinator http://127.0.0.1:8750
    """
    experiments = _remote(coordinator).experiments()
    lines = [f"{experiment['digest']}  {experiment['standing']:8}  {experiment['title']}" for experiment in experiments]
    emit({"experiments": experiments}, output_format, text="\n".join(lines) or "no experiments")


@app.command()
def show(
    experiment: ExperimentArgument, coordinator: CoordinatorOption, output_format: FormatOption = Format.TXT
) -> None:
    """Show the rounds of an experiment and its test results.

    Example:

    \b
        ./secvm experiment show 3fa9 --coordinator http://127.0.0.1:8750
    """
    from secvm.participant.person.disclosure import who_asks

    remote = _remote(coordinator)
    digest = remote.find(experiment)
    status = remote.status(digest)
    with _looked_into():
        lines = _lines(status)
    text = "\n".join([*who_asks(remote.experiment(digest)), *lines])
    emit(status, output_format, text=text)


def _add_move(action: str, summary: str) -> None:
    @app.command(action, help=f"{summary}\n\n{_MOVE_HELP.format(action)}")
    def move(
        experiment: ExperimentArgument,
        coordinator: CoordinatorOption,
        admin_key_file: KeyOption,
        output_format: FormatOption = Format.TXT,
    ) -> None:
        remote = _remote(coordinator, admin_key_file)
        answer = remote.order(f"/{remote.find(experiment)}/{action}")
        with _looked_into():
            text = f"{answer['digest'][:16]}  {answer['standing']}"
        emit(answer, output_format, text=text)


_add_move("pause", "Announce no new round; the one that runs ends properly.")
_add_move("resume", "Go on with a paused experiment.")
_add_move("stop", "End an experiment for good; the round that runs is its last.")


@app.command()
def export(
    experiment: ExperimentArgument,
    coordinator: CoordinatorOption,
    out: Annotated[Path, typer.Option(help="The model file to write.", show_default=False)],
    vocabulary: Annotated[Path | None, typer.Option(help="The public list of words, where bins are words.")] = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Write the newest model as a file that 'secvm predict' reads.

    The model is computed from the published tallies, and all that leads to it is checked as 'secvm audit' does.
    Example:

    \b
        ./secvm experiment export 3fa9 --coordinator http://127.0.0.1:8750 --out owls.secvm
        ./secvm predict owls.secvm people.jsonl
    """
    from secvm.cli.offline.options import check_outputs
    from secvm.files import write_atomically
    from secvm.runtime.clock import SystemClock

    check_outputs({"--out": out}, inputs=(vocabulary,))
    remote = _remote(coordinator)
    digest = remote.find(experiment)
    model = remote.model(digest, now=SystemClock().now)
    if not model.weights.mantissas.any():
        raise BadInputError(
            "the model has learnt nothing yet",
            next_step="Ask again when a round has been counted: secvm experiment show",
        )
    write_atomically(out, model_file(model, vocabulary))
    content = {"experiment": digest, "rounds": model.rounds, "ended": model.ended, "out": str(out)}
    emit(content, output_format, text=f"the model after round {model.rounds} is in {out}")


def model_file(model: TrustedModel, vocabulary: Path | None) -> bytes:
    """A trusted model as the bytes of a model file."""
    from secvm.estimator.model import ModelFile

    return ModelFile(
        experiment=model.document.experiment,
        binning=_binning(model, vocabulary),
        weights=model.weights,
        presence=model.document.features.presence,
        rounds=model.rounds,
        # With cover, devices train on bins that have one unit or none, and so whoever predicts must see them.
        one_per_bin=model.document.experiment.cover is not None,
    ).to_bytes()


def _binning(model: TrustedModel, vocabulary: Path | None) -> Any:
    from secvm.learning.individual.binning import HashBinning
    from secvm.people.reader import read_vocabulary
    from secvm.protocol.documents.experiment import HashedBins

    binning = model.document.binning
    if isinstance(binning, HashedBins):
        if vocabulary is not None:
            raise BadInputError("--vocabulary has no meaning here: the experiment hashes its features")
        if binning.salt is None:
            raise BadInputError("the experiment's salt is not fixed in it; such models cannot be exported yet")
        return HashBinning(n_bins=binning.bins, salt=binning.salt, n_hashes=binning.hashes)
    if vocabulary is None:
        raise BadInputError("the experiment's bins are the words of a public list: give it as --vocabulary")
    words = read_vocabulary(vocabulary)
    if words.digest != binning.digest:
        raise BadInputError("--vocabulary is not the list that the experiment names")
    return words


def _planned(content: dict[str, Any], *, publish: bool = False) -> tuple[dict[str, Any] | None, list[str]]:
    """What a specification's guarantee takes and is worth, as values and in words; None: it asks for none.

    Takes seconds, and needs no coordinator. What is to be published must say who asks.
    """
    from secvm.coordinator.experiments.new_experiment import check_asker, operators_of, private_plan
    from secvm.coordinator.experiments.specification import Specification
    from secvm.crypto.sealing.layers import OUTER_BYTES
    from secvm.privacy.planning.private_plan import plan_lines
    from secvm.privacy.statements.relayed_text import PLAIN, words
    from secvm.runtime.settings import parse_settings

    specification = parse_settings(json.dumps(content, default=str).encode(), Specification, "the specification")
    if publish:
        check_asker(specification)
    if specification.privacy is None:
        return None, [PLAIN]
    note("planning two relays' cover …")
    made = private_plan(specification)
    assert made is not None, "a specification with a guarantee has a plan"
    statement = made.statement(operators_of(specification), floor=specification.floor, bytes_per_package=OUTER_BYTES)
    plan = made.content(statement)
    return plan, [*plan_lines(plan), "", "devices will say:", *(f"  {sentence}" for sentence in words(statement))]


@contextlib.contextmanager
def _looked_into() -> Iterator[None]:
    """For code that takes an answer apart: an answer without what is looked for becomes one sentence."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, OSError):
        raise BadInputError(
            "the coordinator's answer is not what this version of secvm expects",
            next_step="Is --coordinator its own URL, and does it run the same version?",
        ) from None


def _remote(url: str, admin_key_file: Path | None = None) -> Remote:
    from secvm.cli.experiment.remote import Remote

    return Remote(url, admin_key_file)


def _specification(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInputError(f"cannot read {path}: {error.strerror}") from None
    try:
        content = json.loads(data) if path.suffix == ".json" else tomllib.loads(data.decode())
    except (ValueError, RecursionError):
        raise BadInputError(f"{path} is no {'JSON' if path.suffix == '.json' else 'TOML'}") from None
    if not isinstance(content, dict):
        raise BadInputError(f"{path} is no specification")
    return content


def _confirm(*, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise BadInputError("an experiment with a guarantee is published after a yes", next_step="Say it with --yes.")
    if not typer.confirm("Publish it?", err=True):
        raise typer.Exit(1)


def _vocabulary_bins(binning: object, path: Path) -> dict[str, Any]:
    """The specification's [binning] with the words of a list as the bins."""
    from secvm.people.reader import read_vocabulary

    words = read_vocabulary(path)
    bins = {"bins": words.n_bins, "vocabulary": words.digest}
    if not isinstance(binning, dict) or any(binning.get(name, value) != value for name, value in bins.items()):
        raise BadInputError("--vocabulary and [binning] of the specification name different bins")
    return {**binning, **bins}


def _lines(status: dict[str, Any]) -> list[str]:
    lines = [f"{status['title']}", f"{status['experiment']}  {status['standing']}", _privacy(status["privacy"]), ""]
    lines.append(f"{'round':>5}  {'state':10}{'opens at (UTC)':18}{'people':>8}  accuracy")
    for round_ in status["rounds"]:
        opens = datetime.fromtimestamp(round_["opens_at"] / 1000, UTC).strftime("%Y-%m-%d %H:%M")
        people = sum(round_["people"].values()) if "people" in round_ else ""
        line = f"{round_['number']:>5}  {round_['state']:10}{opens:18}{people:>8}  {_share(round_.get('accuracy'))}"
        lines.append(line.rstrip())
    if any(round_["state"] == "abandoned" for round_ in status["rounds"]):
        lines += ["", f"abandoned: fewer than {status['floor']} trained, so nothing is told of them"]
    lines += _reasons(status["rounds"])
    tested = [round_ for round_ in status["rounds"] if "recall" in round_]
    if tested:
        head = f"round {tested[-1]['number']}, by label"
        lines += ["", f"{head:20}{'recall':21}{'precision':21}baseline"]
        lines += [
            f"  {label:18}{_share(tested[-1]['recall'][label]):21}{_share(tested[-1]['precision'][label]):21}"
            f"{_share(tested[-1]['baseline'][label], interval=False)}"
            for label in status["labels"]
        ]
    lines += _leakage(status.get("leakage"))
    return lines + [""] * bool(status["notes"]) + list(status["notes"])


def _privacy(privacy: dict[str, Any]) -> str:
    if privacy["kind"] == "plain":
        return f"plain: {privacy['note']}"
    return f"private: ε = {privacy['epsilon']:g} at δ = {privacy['delta']:g} over all rounds; {privacy['note']}"


def _reasons(rounds: list[dict[str, Any]]) -> list[str]:
    """Why rounds with two relays were not opened, or opened and not stepped."""
    unstepped = [round_ for round_ in rounds if round_.get("reasons")]
    lines = [f"round {round_['number']} {_ended(round_)}: {', '.join(round_['reasons'])}" for round_ in unstepped]
    return [""] * bool(lines) + lines


def _ended(round_: dict[str, Any]) -> str:
    return "is unopened" if round_["state"] == "unopened" else "was opened, and no step was taken"


def _leakage(leakage: dict[str, Any] | None) -> list[str]:
    """What tallies of a plain experiment have given away; of one with two relays there is none to tell."""
    if leakage is None or leakage["auc"] is None:
        return []
    so_far = f"{leakage['rounds_told']} round{'s' * (leakage['rounds_told'] != 1)}"
    sentence = f"leakage: whoever knows a person's features tells the label with AUC {leakage['auc']:.3f} by {so_far}"
    return ["", f"{sentence} (planned for all: {leakage['planned_auc']:.3f})"]


def _share(share: dict[str, Any] | None, *, interval: bool = True) -> str:
    if share is None or share["value"] is None:
        return ""
    return f"{share['value']:.3f}" + (f" ({share['low']:.3f}-{share['high']:.3f})" if interval else "")
