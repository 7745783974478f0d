"""``secvm participant``: take part in an experiment, look at what is sent, pause, predict, forget.

Rules it keeps: nothing is joined without a yes, which is given to one digest; no command shows a feature or a label,
but for ``predict``, whose answer is one.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from secvm.cli.commands import group
from secvm.cli.output import Format, FormatOption, confirmed, emit, note
from secvm.cli.participant import evidence, page, vault
from secvm.cli.participant.state import FolderOption, MaybeConfigOption, consent_of, device_of, known_digest, open_state
from secvm.cli.participant.vault import open_vault
from secvm.cli.parties import PassphraseFd, PassphraseFile, passphrase_of, worth_another_start
from secvm.errors import BadInputError, RemoteProtocolError
from secvm.learning.individual.binning import VocabularyBinning
from secvm.participant.storage.state import DeviceState, Status
from secvm.protocol.documents.experiment import ExperimentDocument, read_published
from secvm.runtime.clock import SystemClock

app = group("Take part with your own data, on your own device.")

ExperimentArgument = Annotated[
    str, typer.Argument(help="The experiment's digest; its first few digits, once joined.", show_default=False)
]
ConfigOption = Annotated[Path, typer.Option("--config", help="The device's settings, a TOML file.", show_default=False)]
SourceOption = Annotated[
    str | None, typer.Option("--source", help="A source of the vault, instead of the one that the experiment names.")
]
VocabularyOption = Annotated[
    Path | None, typer.Option("--vocabulary", help="The experiment's list of words, where it has one.")
]


@app.command()
def join(
    experiment: ExperimentArgument,
    config: ConfigOption,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: I have read what it means.")] = False,
    source: SourceOption = None,
    vocabulary: VocabularyOption = None,
    accept_leakage: Annotated[
        float | None,
        typer.Option(
            help="Without a guarantee, here: agree to this AUC of whoever reads the tallies (1: to any), and to"
            " one of 1.00 of a coordinator that chooses the weights.",
            show_default=False,
        ),
    ] = None,
    accept_epsilon: Annotated[
        float | None, typer.Option(help="With a guarantee, here: agree to this ε.", show_default=False)
    ] = None,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Show what an experiment means, and join it after a yes.

    It is refused where it tells more about you than your device agrees to ([consent] in the settings): an experiment
    without a formal guarantee unless you give --accept-leakage, one with a guarantee above ε = 4. Which of your
    features take part, and whether your device trains or tests, is drawn now and never again. The label is your own:
    give it before with secvm participant label. Example, with the digest cut short:

    \b
        ./secvm participant join 3fa9… --config device.toml
    """
    from secvm.participant.main import make_clock, opened, way_of
    from secvm.participant.person import decisions
    from secvm.participant.person.disclosure import what_leaves
    from secvm.participant.person.pinning import fetch_salt
    from secvm.participant.relayed.preparation import terms_against
    from secvm.participant.sending.transport import Transport
    from secvm.participant.settings import ParticipantSettings
    from secvm.participant.storage.books import Accepted
    from secvm.runtime.settings import read_settings

    _check_digest(experiment)
    settings = read_settings(config, ParticipantSettings)
    words = _vocabulary(vocabulary)
    accepted = Accepted(accept_leakage, accept_epsilon)
    passphrase = passphrase_of(passphrase_file, passphrase_fd)
    consent = settings.agreed()

    async def fetch_and_join() -> bool:
        from secvm.participant.main import make_transport

        transport = make_transport(settings, passphrase)
        try:
            document, envelope = await _fetch(experiment, transport)
            clock, policy = make_clock(settings), settings.policy()
            # Before anybody is asked: what cannot be joined needs no yes.
            policy.check(document)
            consent.check(document, accepted)
            if document.experiment.cover is not None:
                why = await terms_against(document, transport.relayed_terms)
                if why is not None:
                    raise BadInputError(why, next_step="Ask the relay's operator, or try again when it answers.")
            salt = await fetch_salt(document, transport, policy, now=clock.now())
            agreed = yes or _agrees(document, what_leaves(document, consent.statement(document), policy))
            if agreed:
                with opened(settings, passphrase) as (state, own_vault):
                    decisions.join(
                        state,
                        experiment,
                        envelope,
                        own_vault,
                        way_of(settings, transport),
                        source=source,
                        vocabulary=words,
                        salt=salt,
                        accepted=accepted,
                    )
            else:
                with closing(DeviceState(settings.device.folder)) as state:
                    state.decline(experiment, envelope)
            return agreed
        finally:
            await transport.close()

    async def _fetch(digest: str, transport: Transport) -> tuple[ExperimentDocument, bytes]:
        fetched = await transport.fetch(f"/v1/experiment/{digest}")
        if fetched is None:
            if await transport.fetch("/v1/experiments") is None:
                raise BadInputError(
                    "the experiment cannot be fetched: nobody answers, or no coordinator behind a relay",
                    next_step=f"Is the URL in {config} right, and does this machine reach it?",
                )
            raise BadInputError(
                "the experiment cannot be fetched: the coordinator knows none of this digest",
                next_step="Is the digest right, and is this the relay that goes with it?",
            )
        try:
            return read_published(fetched.content, digest=digest), fetched.content
        except RemoteProtocolError as fault:
            raise BadInputError(f"what was fetched is not that experiment: {fault}") from None

    agreed = asyncio.run(fetch_and_join())
    text = (
        f"Joined. Your device takes part while this runs: ./secvm participant run --config {config}\n"
        "It asks for the next round at a random moment. A window that is open already goes by without it."
        if agreed
        else "Not joined. Nothing was sent."
    )
    emit({"joined": agreed}, output_format, text=text)


@app.command()
def run(config: ConfigOption, passphrase_file: PassphraseFile = None, passphrase_fd: PassphraseFd = None) -> None:
    """Take part: fetch, compute and send until told to stop.

    Ctrl-C or SIGTERM stops it; what is not sent yet goes on with the next start, if the window is still open. What it
    does is told by secvm participant inspect. Example:

    \b
        ./secvm participant run --config device.toml
    """
    from secvm.participant.main import run as run_device

    with worth_another_start():
        run_device(config, passphrase_of(passphrase_file, passphrase_fd))


@app.command()
def inspect(
    config: MaybeConfigOption = None, folder: FolderOption = None, output_format: FormatOption = Format.TXT
) -> None:
    """Show what was sent, what will be, and the risk of it.

    The ledger of all that was told to anybody is there too. Example:

    \b
        ./secvm participant inspect --config device.toml
    """
    from secvm.participant.consent.ledger import in_words, read_ledger
    from secvm.participant.person.inspection import as_text
    from secvm.participant.person.inspection import inspect as look
    from secvm.runtime.disk.process_lock import FILE as LOCK_FILE
    from secvm.runtime.disk.process_lock import is_running

    settings, _ = device_of(config, folder)
    consent, policy = consent_of(settings), None if settings is None else settings.policy()
    with closing(open_state(config, folder)) as state:
        shown = look(state, now=SystemClock().now(), consent=consent, policy=policy)
        ledger = read_ledger(state, consent)
    now = (
        "It runs now."
        if is_running(state.folder / LOCK_FILE)
        else "It does not run now, so nothing is fetched or sent."
    )
    text = "\n".join([as_text(shown), *in_words(ledger, consent), "", now]) if shown else as_text(shown)
    emit({**shown, "ledger": ledger.content(consent)}, output_format, text=text)


@app.command()
def predict(
    experiment: ExperimentArgument,
    config: MaybeConfigOption = None,
    folder: FolderOption = None,
    source: SourceOption = None,
    vocabulary: VocabularyOption = None,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Say your label by the last model, without sending anything.

    Example, with the digest cut short:

    \b
        ./secvm participant predict 3fa9… --config device.toml
    """
    from secvm.participant.person.pinning import predict_for

    words = _vocabulary(vocabulary)
    with closing(open_state(config, folder)) as state:
        experiment = known_digest(state, experiment)
        with open_vault(state.folder, passphrase_of(passphrase_file, passphrase_fd)) as own_vault:
            predicted = predict_for(experiment, state, own_vault, source=source, vocabulary=words)
    emit({"label": predicted.label, "margin": predicted.margin, "round": predicted.round_number}, output_format)


@app.command()
def pause(
    experiment: ExperimentArgument,
    config: MaybeConfigOption = None,
    folder: FolderOption = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Send and fetch nothing for an experiment until resumed.

    Example, with the digest cut short:

    \b
        ./secvm participant pause 3fa9… --config device.toml
    """
    from secvm.participant.person import decisions

    with closing(open_state(config, folder)) as state:
        experiment = known_digest(state, experiment)
        decisions.pause(state, experiment)
    emit(
        {"experiment": experiment, "status": Status.PAUSED.value},
        output_format,
        text="Paused. What was sent before cannot be taken back.",
    )


@app.command()
def resume(
    experiment: ExperimentArgument,
    config: MaybeConfigOption = None,
    folder: FolderOption = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Go on with an experiment that was paused or distrusted.

    Why it distrusted is told by secvm participant inspect. Where it holds evidence against the server it never goes on.
    Example, with the digest cut short:

    \b
        ./secvm participant resume 3fa9… --config device.toml
    """
    from secvm.participant.person import decisions

    with closing(open_state(config, folder)) as state:
        experiment = known_digest(state, experiment)
        goes_on = decisions.resume(state, experiment)
    text = "Resumed." if goes_on else "Your device holds evidence against the server, and goes on sending nothing."
    emit({"experiment": experiment, "status": Status.JOINED.value}, output_format, text=text)


@app.command()
def forget(
    experiment: ExperimentArgument,
    config: MaybeConfigOption = None,
    folder: FolderOption = None,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Leave an experiment for good, and forget your data for it.

    Your label for it goes from the vault as well; your features stay there for other experiments. What was sent cannot
    be taken back. The device remembers that it took part, and will not join this experiment again. Example, with the
    digest cut short:

    \b
        ./secvm participant forget 3fa9… --config device.toml
    """
    from secvm.participant.person import decisions

    with closing(open_state(config, folder)) as state:
        experiment = known_digest(state, experiment)
        passphrase = passphrase_of(passphrase_file, passphrase_fd)
        decisions.forget(state, experiment, lambda: open_vault(state.folder, passphrase))
    emit(
        {"experiment": experiment, "status": Status.FORGOTTEN.value},
        output_format,
        text="Forgotten. What was sent before cannot be taken back.",
    )


app.command("import")(vault.import_features)
for _command in (vault.label, vault.show_vault, evidence.evidence, vault.protect_keys, page.ui):
    app.command()(_command)


def _agrees(document: ExperimentDocument, sentences: list[str]) -> bool:
    from secvm.participant.person.disclosure import who_asks

    labels = ", ".join(document.experiment.labels)
    note("\n".join([document.title, *who_asks(document), f"{document.question} ({labels})", ""]))
    for sentence in sentences:
        note(f"- {sentence}")
    if document.test:
        note("- It is marked as a test: it is not for people's own data.")
    return confirmed("\nTake part?", otherwise="--yes agrees without asking.")


def _vocabulary(path: Path | None) -> VocabularyBinning | None:
    if path is None:
        return None
    from secvm.people.reader import read_vocabulary

    return read_vocabulary(path)


def _check_digest(text: str) -> None:
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise BadInputError("an experiment is named by its digest, 64 hexadecimal digits")
