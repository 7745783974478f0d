"""``secvm participant init`` and ``join``: from an invite to a device that takes part, after a yes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from secvm.cli.output import Format, FormatOption, asked_secretly, decided, emit, note, program
from secvm.cli.participant.state import (
    ConfigOption,
    FolderOption,
    device_of,
    digest_among,
    settings_of,
)
from secvm.cli.participant.vault import open_vault
from secvm.cli.parties import PassphraseFd, PassphraseFile, passphrase_of
from secvm.errors import BadInputError
from secvm.learning.individual.binning import VocabularyBinning
from secvm.participant.sources.browsers import HISTORIES
from secvm.participant.sources.port import Options
from secvm.participant.sources.registry import find_source, how_to_import
from secvm.participant.storage.vault import Provenance
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.runtime.clock import SystemClock

if TYPE_CHECKING:
    from secvm.participant.storage.vault import Vault

_DIGEST_DIGITS = 64
SourceOption = Annotated[
    str | None, typer.Option("--source", help="A source of the vault, instead of the one that the experiment names.")
]
VocabularyOption = Annotated[
    Path | None, typer.Option("--vocabulary", help="The experiment's list of words, where it has one.")
]


def init(
    invite: Annotated[
        str | None, typer.Argument(help="What you were given: a line secvm:…, or a file with it.", show_default=False)
    ] = None,
    folder: FolderOption = None,
    credential_file: Annotated[
        Path | None, typer.Option("--credential-file", help="Your credential, where the relay wants one.")
    ] = None,
    tor: Annotated[
        bool, typer.Option("--tor", help="Go over the Tor of this machine, now and always. Onion services need it.")
    ] = False,
    own_file: Annotated[
        Path | None, typer.Option("--from", help="A CSV file of your own, kept as what the experiment looks at.")
    ] = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Make a device for yourself, from an invite.

    It fetches the experiment through the relay that the invite names, shows who asks, and writes the settings of your
    device. Nothing is joined, and nothing about you is sent. Example, with the digest cut short:

    \b
        ./secvm participant init secvm:https://relay.example/relay#3fa9…
    """
    from secvm.participant.invitation import fetch_experiment, keep_invitation, make_folder, write_settings
    from secvm.participant.main import make_transport
    from secvm.participant.person.disclosure import chosen_relays, who_asks
    from secvm.participant.settings import DeviceSettings, ParticipantSettings, RelaySettings
    from secvm.protocol.invite import Invite
    from secvm.runtime.http.messages import is_onion

    settings, place = device_of(None, folder)
    where = "" if folder is None else f" --folder {folder}"
    if invite is None:
        make_folder(place)
        text = f"Your device lies in {place}.\nWith an invite: {program()} participant init INVITE{where}"
        emit({"folder": str(place)}, output_format, text=text)
        return
    read = Invite.from_text(_invite_line(invite))
    if settings is not None and (settings.relay is None or read.relay_url not in settings.relay.urls):
        raise BadInputError(
            f"the device in {place} has settings already, and they do not name the relay of this invite",
            next_step="Make another device for it, with --folder FOLDER.",
        )
    via: Literal["tor"] | None = "tor" if tor or is_onion(read.relay_url) else None
    reached = settings or ParticipantSettings(
        device=DeviceSettings(folder=place),
        relay=RelaySettings(urls=(read.relay_url,), credential_file=credential_file, via=via),
    )

    async def fetch() -> tuple[ExperimentDocument, bytes]:
        transport = make_transport(reached)
        try:
            document, envelope = await fetch_experiment(read.digest, transport)
            transport.check(document)
            return document, envelope
        finally:
            await transport.close()

    document, envelope = asyncio.run(fetch())
    # Before anything is written: a file that cannot be read leaves no half of a device.
    brought = None if own_file is None else _read_own(own_file, document)
    if settings is None:
        write_settings(place, read, document, credential_file=credential_file, via=via)
    keep_invitation(place, read.digest, envelope)
    source = document.features.source
    if brought is not None:
        with open_vault(place, passphrase_of(None, None)) as vault:
            features, reading = brought
            vault.put(source, {word: n for word, n in features.items() if word not in vault.excluded()}, reading)
    lines = [document.title, *who_asks(document), document.question, "", chosen_relays(document), ""]
    if document.test:
        lines += ["It is marked as a test: this device is for made-up data, and joins nothing else.", ""]
    if brought is not None:
        lines += [f"{len(brought[0])} features of {own_file} are in the vault as “{source}”.", ""]
    elif settings is None:
        lines += [f"It looks at “{source}”, of which your device has nothing yet. Bring it in with:"]
        lines += [f"{how_to_import(source)}{where}", ""]
    lines.append(f"Nothing is joined, and nothing was sent. Next: {program()} participant ui --open{where}")
    emit({"experiment": read.digest, "folder": str(place)}, output_format, text="\n".join(lines))


def _read_own(path: Path, document: ExperimentDocument) -> tuple[Mapping[str, int], Provenance]:
    """What a table of the person's own gives, and how it was read."""
    if document.features.source in HISTORIES:
        raise BadInputError(
            f"the experiment looks at “{document.features.source}”, which is read from your browser and from no file",
            next_step=f"Leave out --from, and then: {how_to_import(document.features.source)}",
        )
    now, table = SystemClock().now(), find_source("csv")
    features = table.read(Options(home=Path.home(), now=now, path=path))
    if not features:
        raise BadInputError(f"{path} holds no words")
    return features, Provenance(table.name, now, None)


def _invite_line(given: str) -> str:
    """The invite as it was given, or as it stands in the file that was named."""
    if given.startswith("secvm:"):
        return given
    try:
        with Path(given).open("rb") as file:
            return file.read(4096).decode("ascii", errors="replace")
    except (OSError, ValueError):
        raise BadInputError(
            "this is neither an invite nor a file that holds one",
            next_step="An invite is a line secvm:RELAY-URL#DIGEST; copy the whole of it.",
        ) from None


def join(
    experiment: Annotated[
        str | None,
        typer.Argument(
            help="The experiment's digest; after init, its first few digits or nothing will do.", show_default=False
        ),
    ] = None,
    config: ConfigOption = None,
    folder: FolderOption = None,
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
    features take part, and whether your device trains or tests, is drawn now and never again. Your own answer is asked
    for, unless you gave it before with secvm participant label. Example, with the digest cut short:

    \b
        ./secvm participant join 3fa9…
    """
    from secvm.participant.invitation import fetch_experiment, invitations
    from secvm.participant.main import make_clock, make_transport, opened, way_of
    from secvm.participant.person import decisions
    from secvm.participant.person.disclosure import chosen_relays, in_short, what_leaves
    from secvm.participant.person.pinning import fetch_salt
    from secvm.participant.relayed.preparation import terms_against
    from secvm.participant.storage.books import Accepted
    from secvm.participant.storage.state import DeviceState

    settings = settings_of(config, folder)
    invited = invitations(settings.device.folder)
    digest = _digest(experiment, list(invited))
    words = vocabulary_of(vocabulary)
    accepted = Accepted(accept_leakage, accept_epsilon)
    passphrase = passphrase_of(passphrase_file, passphrase_fd)
    consent = settings.agreed()

    async def fetch_and_join() -> bool:
        transport = make_transport(settings, passphrase)
        try:
            document, envelope = await fetch_experiment(digest, transport)
            clock, policy = make_clock(settings), settings.policy()
            way = way_of(settings, transport)
            # Before anybody is asked: what cannot be joined needs no yes.
            decisions.check_data(document, way)
            policy.check(document)
            consent.check(document, accepted)
            if document.experiment.cover is not None:
                why = await terms_against(document, transport.relayed_terms)
                if why is not None:
                    raise BadInputError(why, next_step="Ask the relay's operator, or try again when it answers.")
            salt = await fetch_salt(document, transport, policy, now=clock.now())
            statement = consent.statement(document)
            short = [*in_short(document, statement), *([chosen_relays(document)] if digest in invited else [])]
            agreed = yes or agrees(document, short, what_leaves(document, statement, policy))
            if agreed:
                with opened(settings, passphrase) as (state, own_vault):
                    decisions.join(
                        state,
                        digest,
                        envelope,
                        own_vault,
                        way,
                        source=source,
                        vocabulary=words,
                        salt=salt,
                        accepted=accepted,
                        answer=_answer(document, own_vault),
                    )
            else:
                with closing(DeviceState(settings.device.folder)) as state:
                    state.decline(digest, envelope)
            return agreed
        finally:
            await transport.close()

    agreed = asyncio.run(fetch_and_join())
    where = f" --config {config}" if config is not None else f" --folder {folder}" if folder is not None else ""
    text = (
        f"Joined. Your device takes part while this runs: {program()} participant run{where}\n"
        "It asks for the next round at a random moment. A window that is open already goes by without it."
        if agreed
        else "Not joined. Nothing was sent."
    )
    emit({"joined": agreed}, output_format, text=text)


def agrees(document: ExperimentDocument, short: list[str], full: list[str]) -> bool:
    """Show the person who asks and what it means, in short and on demand in full; whether they say yes."""
    from secvm.participant.person.disclosure import who_asks

    labels = ", ".join(document.experiment.labels)
    note("\n".join([document.title, *who_asks(document), "", f"{document.question} ({labels})", ""]))
    if document.test:
        note("- It is marked as a test, and your device is for made-up data.")
    for sentence in short:
        note(f"- {sentence}")

    def read_everything() -> None:
        for sentence in full:
            note(f"- {sentence}")

    return decided("Take part?", read_everything, otherwise="--yes agrees without asking.")


def _answer(document: ExperimentDocument, vault: Vault) -> str | None:
    """What the person answers, where the vault does not have it and somebody is there to be asked."""
    if vault.label(document.digest) is not None or not sys.stdin.isatty():
        return None
    labels = "a number" if document.experiment.loss.regression else ", ".join(document.experiment.labels)
    return asked_secretly(f"Your own answer, {labels}", otherwise="")


def vocabulary_of(path: Path | None) -> VocabularyBinning | None:
    """The list of words in this file."""
    if path is None:
        return None
    from secvm.people.reader import read_vocabulary

    return read_vocabulary(path)


def _digest(named: str | None, invited: list[str]) -> str:
    """The experiment that is to be joined: by its whole digest, or as one that the person was invited to."""
    if named is None:
        if len(invited) != 1:
            raise BadInputError(
                "name the experiment to join" if invited else "you were not invited to any experiment",
                next_step="An experiment is named by its digest, 64 hexadecimal digits.",
            )
        return invited[0]
    if len(named) == _DIGEST_DIGITS:
        return digest_among([named], named)
    if not any(digest.startswith(named) for digest in invited):
        raise BadInputError(
            "an experiment is named by its digest, 64 hexadecimal digits, or its first few once invited"
        )
    return digest_among(invited, named)
