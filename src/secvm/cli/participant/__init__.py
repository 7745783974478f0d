"""``secvm participant``: take part in an experiment, look at what is sent, pause, predict, forget.

Rules it keeps: nothing is joined without a yes, which is given to one digest; no command shows a feature or a label,
but for ``predict``, whose answer is one.
"""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from secvm.cli.commands import group
from secvm.cli.output import Format, FormatOption, confirmed, emit
from secvm.cli.participant import evidence, joining, page, vault
from secvm.cli.participant.joining import SourceOption, VocabularyOption, vocabulary_of
from secvm.cli.participant.state import (
    ConfigOption,
    FolderOption,
    consent_of,
    device_of,
    known_digest,
    open_state,
    settings_of,
)
from secvm.cli.participant.vault import open_vault
from secvm.cli.parties import PassphraseFd, PassphraseFile, passphrase_of, worth_another_start
from secvm.errors import BadInputError
from secvm.participant.storage.state import FILE, Status
from secvm.protocol.documents.experiment import read_published
from secvm.runtime.clock import SystemClock

app = group("Take part with your own data, on your own device.")

ExperimentArgument = Annotated[
    str, typer.Argument(help="The experiment's digest; its first few digits, once joined.", show_default=False)
]


@app.command()
def run(
    config: ConfigOption = None,
    folder: FolderOption = None,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
) -> None:
    """Take part: fetch, compute and send until told to stop.

    Ctrl-C or SIGTERM stops it; what is not sent yet goes on with the next start, if the window is still open. What it
    does is told by secvm participant inspect. Example:

    \b
        ./secvm participant run
    """
    from secvm.participant.main import run as run_device

    with worth_another_start():
        run_device(settings_of(config, folder), passphrase_of(passphrase_file, passphrase_fd))


@app.command()
def inspect(config: ConfigOption = None, folder: FolderOption = None, output_format: FormatOption = Format.TXT) -> None:
    """Show what was sent, what will be, and the risk of it.

    The ledger of all that was told to anybody is there too. Example:

    \b
        ./secvm participant inspect
    """
    from secvm.participant.consent.ledger import figures, in_words, read_ledger
    from secvm.participant.person.inspection import as_text
    from secvm.participant.person.inspection import inspect as look
    from secvm.runtime.disk.process_lock import is_carried

    settings, place = device_of(config, folder)
    if not place.is_dir():
        raise BadInputError(f"{place}: there is no device here", next_step="Say where with --config or --folder.")
    if not (place / FILE).exists():
        emit({}, output_format, text="You have joined nothing yet.")
        return
    consent, policy = consent_of(settings), None if settings is None else settings.policy()
    with closing(open_state(place)) as state:
        shown = look(state, now=SystemClock().now(), consent=consent, policy=policy)
        ledger = read_ledger(state, consent)
    now = "It runs now." if is_carried(place) else "It does not run now, so nothing is fetched or sent."
    text = as_text(shown)
    if shown:
        text = "\n".join([text, *in_words(ledger), *figures(ledger, consent), "", now])
    emit({**shown, "ledger": ledger.content(consent)}, output_format, text=text)


@app.command()
def predict(
    experiment: ExperimentArgument,
    config: ConfigOption = None,
    folder: FolderOption = None,
    source: SourceOption = None,
    vocabulary: VocabularyOption = None,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Predict your label with the last model.

    Nothing is sent. Example, with the digest cut short:

    \b
        ./secvm participant predict 3fa9…
    """
    from secvm.participant.person.pinning import predict_for

    words = vocabulary_of(vocabulary)
    with closing(open_state(device_of(config, folder)[1])) as state:
        experiment = known_digest(state, experiment)
        with open_vault(state.folder, passphrase_of(passphrase_file, passphrase_fd)) as own_vault:
            predicted = predict_for(experiment, state, own_vault, source=source, vocabulary=words)
    result = {"label": predicted.label, "margin": predicted.margin, "round": predicted.rounds}
    # A margin says nothing to whoever does not know the rule.
    emit(result, output_format, text=f"{predicted.label}, by the model after round {predicted.rounds}")


@app.command()
def pause(
    experiment: ExperimentArgument,
    config: ConfigOption = None,
    folder: FolderOption = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Send and fetch nothing for an experiment until resumed.

    Example, with the digest cut short:

    \b
        ./secvm participant pause 3fa9…
    """
    from secvm.participant.person import decisions

    with closing(open_state(device_of(config, folder)[1])) as state:
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
    config: ConfigOption = None,
    folder: FolderOption = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Go on with an experiment that was paused or distrusted.

    Why it distrusted is told by secvm participant inspect. Where it holds evidence against the server it never goes on.
    Example, with the digest cut short:

    \b
        ./secvm participant resume 3fa9…
    """
    from secvm.participant.person import decisions

    with closing(open_state(device_of(config, folder)[1])) as state:
        experiment = known_digest(state, experiment)
        goes_on = decisions.resume(state, experiment)
    text = "Resumed." if goes_on else "Your device holds evidence against the server, and goes on sending nothing."
    emit({"experiment": experiment, "status": Status.JOINED.value}, output_format, text=text)


@app.command()
def forget(
    experiment: Annotated[
        str | None, typer.Argument(help="The experiment's digest, or its first few digits.", show_default=False)
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Forget what this source gave instead.", show_default=False)
    ] = None,
    config: ConfigOption = None,
    folder: FolderOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Leave an experiment for good, or forget what a source gave.

    Your label for it goes from the vault as well; your features stay there for other experiments. What was sent cannot
    be taken back. The device remembers that it took part, and will not join this experiment again. Example, with the
    digest cut short:

    \b
        ./secvm participant forget 3fa9…
        ./secvm participant forget --source history-titles
    """
    from secvm.participant.person import decisions

    if (experiment is None) == (source is None):
        raise BadInputError("say what to forget: an experiment, or --source NAME")
    if source is not None:
        with open_vault(device_of(config, folder)[1], passphrase_of(passphrase_file, passphrase_fd)) as own_vault:
            if source not in own_vault.summary():
                raise BadInputError(
                    f"the vault has nothing of the source '{source}'", next_step="See: secvm participant show-vault"
                )
            if not (yes or confirmed(f"Forget all that '{source}' gave?", otherwise="--yes does it without asking.")):
                raise BadInputError("nothing was forgotten")
            own_vault.forget(source)
        emit({"source": source}, output_format, text=f"Forgotten: all that '{source}' gave.")
        return
    assert experiment is not None, "one of the two was given"
    with closing(open_state(device_of(config, folder)[1])) as state:
        experiment = known_digest(state, experiment)
        record = state.record(experiment)
        assert record is not None, "a digest that is known has a record"
        title = read_published(record.envelope, digest=experiment).title
        if not (yes or confirmed(f"Leave “{title}” for good?", otherwise="--yes leaves without asking.")):
            raise BadInputError("nothing was forgotten")
        passphrase = passphrase_of(passphrase_file, passphrase_fd)
        decisions.forget(state, experiment, lambda: open_vault(state.folder, passphrase))
    emit(
        {"experiment": experiment, "status": Status.FORGOTTEN.value},
        output_format,
        text=f"Left and forgotten: “{title}”. What was sent before cannot be taken back.",
    )


app.command("import")(vault.import_features)
for _command in (
    joining.init,
    joining.join,
    vault.label,
    vault.show_vault,
    evidence.evidence,
    vault.protect_keys,
    page.ui,
):
    app.command()(_command)
