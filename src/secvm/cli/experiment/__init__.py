"""``secvm experiment``: ask a question of many devices, look at the answers, take the model home."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secvm.cli.commands import group
from secvm.cli.coordinator_options import AdminKeyOption, AnyAdminKey, AnyCoordinator, CoordinatorOption
from secvm.cli.experiment.invite import invite
from secvm.cli.experiment.rounds import OVER, LostParties, ended_rounds, ending_line, round_line, status_lines
from secvm.cli.output import Format, FormatOption, emit, note, program, say
from secvm.errors import BadInputError, SecVMError
from secvm.files import or_bad_input
from secvm.runtime.clock import SteadyClock

if TYPE_CHECKING:
    from secvm.cli.experiment.remote import Remote, TrustedModel
    from secvm.protocol.log.policy import LogTerms

app = group("Make experiments, watch them, and export their models.")

ExperimentArgument = Annotated[str, typer.Argument(help="Its digest, or how it begins.", show_default=False)]

_MOVE_HELP = """Example:

\b
    ./secvm experiment {} 3fa9 --coordinator http://127.0.0.1:8750 --admin-key-file admin.key"""


@app.command()
def new(
    specification: Annotated[Path, typer.Argument(help="What is asked, as TOML or JSON.", show_default=False)],
    coordinator: AnyCoordinator = None,
    admin_key_file: AnyAdminKey = None,
    vocabulary: Annotated[
        Path | None, typer.Option(help="A public list of words, a word on each line: these words are the bins.")
    ] = None,
    plan_only: Annotated[
        bool,
        typer.Option(
            "--plan-only", help="Only plan it and say whether devices would join: needs no coordinator and no key."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Publish it without asking.")] = False,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Make an experiment from a specification.

    docs/how-to/run-an-experiment.md explains every key of it. Before anything is published you see what its guarantee
    takes and what can be learnt, whether its relays' terms allow it, and whether a device with default consent joins;
    then you are asked. Example:

    \b
        ./secvm experiment new examples/experiment.toml --plan-only
        ./secvm experiment new examples/experiment.toml --coordinator http://127.0.0.1:8750 \\
            --admin-key-file admin.key
    """
    from secvm.cli.experiment.preview import look_ahead

    content = _specification(specification)
    if vocabulary is not None:
        content["binning"] = _vocabulary_bins(content.get("binning", {}), vocabulary)
    if plan_only:
        preview = look_ahead(content)
        emit(preview.content(), output_format, text="\n".join(preview.lines))
        return
    if coordinator is None or admin_key_file is None:
        raise BadInputError(
            "an experiment is made at a coordinator, with its admin key",
            next_step="Name both with --coordinator and --admin-key-file, or plan without them with --plan-only.",
        )
    remote = _remote(coordinator, admin_key_file)
    # Before anything is planned, which takes seconds: is it a coordinator, and is this its key?
    remote.kept()
    preview = look_ahead(content, lambda: remote.draft(content))
    for line in preview.lines:
        note(line)
    _confirm(yes=yes, refused=bool(preview.refusals))
    answer = remote.order("", content)
    with _looked_into():
        lines = [f"{answer['digest']}  {answer['title']}"]
        lines.append(f"budget {answer['budget']} packages, {answer['rounds']} rounds")
    waiting = _await_witnesses(remote, str(answer["digest"]), preview.document.log)
    content = answer | preview.content() | {"waiting_for_witnesses": waiting is not None}
    emit(content, output_format, text="\n".join([*lines, *([waiting] if waiting else [])]))


#: A quorum cosigns within a second where all is well.
_WITNESSES_MS, _LOOK_MS = 10_000, 500


def _await_witnesses(remote: Remote, digest: str, log: LogTerms | None) -> str | None:
    """Wait until a quorum has cosigned a new experiment, for some seconds; what is still missing then, in words."""
    clock = SteadyClock()
    until = clock.now() + _WITNESSES_MS
    while log is not None and not remote.is_cosigned(digest):
        if clock.now() >= until:
            silent = remote.silent_witnesses()
            missing = f"{log.quorum} must cosign"
            if silent is not None:
                # Those of other experiments' terms are not counted.
                away = [witness.name for witness in log.witnesses if witness.name in silent]
                missing = f"{len(log.witnesses) - len(away)} of {log.quorum}; not yet {', '.join(away)}"
            return f"waiting for witnesses: {missing}. Nobody sees the experiment before a quorum has cosigned."
        asyncio.run(clock.sleep_until(clock.now() + _LOOK_MS))
    return None


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
        health = remote.health()
        lost = LostParties().news(health, coordinator.rstrip("/"))
        text = "\n".join([*who_asks(remote.experiment(digest)), *status_lines(status), *[""] * bool(lost), *lost])
    emit({**status, "lost": health.get("lost") or []}, output_format, text=text)


@app.command()
def watch(
    experiment: ExperimentArgument,
    coordinator: CoordinatorOption,
    rounds: Annotated[
        int | None, typer.Option(help="End after N counted rounds.", metavar="N", show_default=False)
    ] = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Follow the rounds of an experiment: a line for each that ends.

    It goes on until the experiment is over; --rounds N ends it earlier, and so does Ctrl-C. A relay or a quorum of
    witnesses that is lost for a minute is named, with where to look. With --format json there is one object at the
    end. Examples:

    \b
        ./secvm experiment watch 3fa9 --coordinator http://127.0.0.1:8750
        ./secvm experiment watch 3fa9 --rounds 1
    """
    if rounds is not None and rounds < 1:
        raise BadInputError(f"--rounds is {rounds}: watch for one round at least, or leave it out")
    remote, clock = _remote(coordinator), SteadyClock()
    digest = remote.find(experiment)
    watched, lost, status = list[dict[str, Any]](), LostParties(), dict[str, Any]()

    def wait() -> None:
        asyncio.run(clock.sleep_until(clock.now() + _LOOK_AGAIN_MS))

    def pause() -> None:
        for sentence in lost.news(_patiently(remote.health, wait), coordinator.rstrip("/")):
            note(sentence)
        wait()

    def look() -> dict[str, Any]:
        nonlocal status
        status = _patiently(lambda: remote.status(digest), wait)
        return status

    try:
        with _looked_into():
            for round_ in ended_rounds(look, pause, rounds):
                watched.append(round_)
                if output_format is Format.TXT:
                    say(round_line(round_) + "\n")
            if status["standing"] in OVER:
                export = f"{program()} experiment export {digest[:12]} --coordinator {coordinator} --out model.secvm"
                note(ending_line(status, export))
    finally:
        if output_format is Format.JSON:
            emit({"experiment": digest, "rounds": watched}, output_format)


def _patiently(ask: Callable[[], dict[str, Any]], wait: Callable[[], None]) -> dict[str, Any]:
    """An answer of the coordinator, also where it is away for a while: it is restarted, or the network is."""
    from secvm.cli.experiment.remote import AwayError

    noted = False
    while True:
        try:
            answer = ask()
        except AwayError as fault:
            if not noted:
                note(f"{fault}. It is asked again until it answers; Ctrl-C ends this.")
            noted = True
            wait()
            continue
        if noted:
            note("The coordinator answers again.")
        return answer


#: Between two looks at the status.
_LOOK_AGAIN_MS = 3_000


def _add_move(action: str, summary: str) -> None:
    @app.command(action, help=f"{summary}\n\n{_MOVE_HELP.format(action)}")
    def move(
        experiment: ExperimentArgument,
        coordinator: CoordinatorOption,
        admin_key_file: AdminKeyOption,
        output_format: FormatOption = Format.TXT,
    ) -> None:
        remote = _remote(coordinator, admin_key_file)
        path = f"/{remote.find(experiment)}"
        with _looked_into():
            before = remote.kept(path)["standing"]
            answer = remote.order(f"{path}/{action}")
            already = " already: nothing has changed" if answer["standing"] == before else ""
            text = f"{answer['digest'][:16]}  {answer['standing']}{already}"
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


app.command()(invite)


@contextlib.contextmanager
def _looked_into() -> Iterator[None]:
    """For code that takes an answer apart: an answer without what is looked for becomes one sentence."""
    try:
        yield
    except (SecVMError, BrokenPipeError):
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, OSError):
        from secvm.cli.experiment.remote import other_answer

        raise other_answer() from None


def _remote(url: str, admin_key_file: Path | None = None) -> Remote:
    from secvm.cli.experiment.remote import Remote

    return Remote(url, admin_key_file)


def _specification(path: Path) -> dict[str, Any]:
    from secvm.runtime.settings import read_toml

    if path.suffix != ".json":
        return read_toml(path, "the specification")
    with or_bad_input(f"cannot read the specification {path}"):
        data = path.read_bytes()
    try:
        content = json.loads(data)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise BadInputError(f"the specification {path} cannot be read as JSON (at {place})") from None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise BadInputError(f"the specification {path} is not a JSON object")
    return content


def _confirm(*, yes: bool, refused: bool) -> None:
    if yes:
        return
    question = "Devices refuse it unless their people say otherwise. Publish it?" if refused else "Publish it?"
    if not sys.stdin.isatty():
        raise BadInputError("an experiment is published after a yes", next_step="Say it with --yes.")
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)


def _vocabulary_bins(binning: object, path: Path) -> dict[str, Any]:
    """The specification's [binning] with the words of a list as the bins."""
    from secvm.people.reader import read_vocabulary

    words = read_vocabulary(path)
    bins = {"bins": words.n_bins, "vocabulary": words.digest}
    if not isinstance(binning, dict) or any(binning.get(name, value) != value for name, value in bins.items()):
        raise BadInputError("--vocabulary and [binning] of the specification name different bins")
    return {**binning, **bins}
