"""``secvm participant import``, ``label``, ``show-vault`` and ``protect-keys``: what a person puts into the vault.

None of them shows a label, and features only where they are asked for: a terminal scrolls, is shared, and is logged.
"""

from __future__ import annotations

import os
import re
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from secvm.cli.output import Format, FormatOption, asked_secretly, emit
from secvm.cli.participant.state import ConfigOption, FolderOption, device_of, digest_among, open_state
from secvm.cli.parties import (
    NewPassphraseFd,
    NewPassphraseFile,
    PassphraseFd,
    PassphraseFile,
    Remove,
    new_passphrase_of,
    passphrase_of,
)
from secvm.errors import BadInputError
from secvm.participant.invitation import invitations
from secvm.participant.sources.pages import as_excluded
from secvm.participant.sources.port import Options
from secvm.participant.sources.registry import find_source, import_from, list_sources
from secvm.participant.storage.device_lock import open_lock
from secvm.participant.storage.state import FILE as STATE_FILE
from secvm.participant.storage.vault import Provenance, Vault
from secvm.runtime.clock import SystemClock
from secvm.runtime.disk.secret_files import Passphrase


def open_vault(folder: Path, passphrase: Passphrase) -> Vault:
    """The vault of this device; the passphrase is asked for where it has one."""
    return Vault(folder, lock=open_lock(folder, passphrase, os.urandom))


def import_features(
    source: Annotated[str | None, typer.Argument(help="A source; --list shows them.", show_default=False)] = None,
    path: Annotated[
        Path | None, typer.Argument(help="The file, or a browser profile's folder.", show_default=False)
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the sources and read nothing.")] = False,
    profile: Annotated[str | None, typer.Option(help="History: which profile, where there are several.")] = None,
    days: Annotated[int | None, typer.Option(help="History: pages last visited in so many days.")] = None,
    min_visits: Annotated[int | None, typer.Option(help="History: pages visited so often or more.")] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST|WORD", help="Read no page of this host, or not this word; from now on."),
    ] = None,
    include: Annotated[
        list[str] | None, typer.Option(metavar="HOST|WORD", help="Read again what was excluded.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Any other option of the source.")
    ] = None,
    keep_as: Annotated[str | None, typer.Option("--as", help="Keep under this name instead of the source's.")] = None,
    config: ConfigOption = None,
    folder: FolderOption = None,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Read features of a source on this device into the vault.

    What the source gave before is replaced. Nothing is sent, and nothing of the source is changed: a browser's history
    is read from a private copy, which is removed. Pages of private windows are not in a history. Example:

    \b
        ./secvm participant import history-titles --days 30 --exclude bank.example
    """
    if list_:
        emit(list_sources(), output_format)
        return
    if source is None:
        raise BadInputError("name a source to read from", next_step="See: secvm participant import --list")
    reader = find_source(source)
    wishes = {"profile": profile, "days": days, "min-visits": min_visits}
    given = {name: str(wish) for name, wish in wishes.items() if wish is not None}
    for item in option or []:
        name, equals, value = item.partition("=")
        if not equals or name in given:
            raise BadInputError("--option takes NAME=VALUE, each name once")
        given[name] = value
    options = Options(home=Path.home(), now=SystemClock().now(), path=path, given=given)
    with open_vault(device_of(config, folder)[1], passphrase_of(passphrase_file, passphrase_fd)) as vault:
        vault.include([as_excluded(name) for name in include or []])
        vault.exclude([as_excluded(name) for name in exclude or []])
        features = import_from(reader, options, vault, keep_as=keep_as)
    name = keep_as or reader.name
    emit(
        {"source": name, "features": features},
        output_format,
        text=f"{features} features are in the vault under the name {name}. Nothing was sent.",
    )


def label(
    question: Annotated[str, typer.Argument(help="A question's name, or an experiment's digest.", show_default=False)],
    answer: Annotated[
        str | None, typer.Option(help="Your label. Without it you are asked: a shell keeps what you type.")
    ] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Forget your label for this question.")] = False,
    config: ConfigOption = None,
    folder: FolderOption = None,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Set or delete your own answer to a question.

    It stays in the vault on this device. It is used for an experiment that you joined, and for no other. Example, with
    the digest cut short:

    \b
        ./secvm participant label 3fa9…
    """
    if forget and answer is not None:
        raise BadInputError("--answer and --forget exclude each other")
    place = device_of(config, folder)[1]
    if re.fullmatch("[0-9a-f]{1,63}", question):
        # Kept under a digest that is cut short nothing would ever find it.
        question = digest_among(_known(place), question)
    if not forget and answer is None:
        answer = asked_secretly("Your label", otherwise="Give your label with --answer.")
    with open_vault(place, passphrase_of(passphrase_file, passphrase_fd)) as vault:
        if answer is None:
            vault.forget_label(question)
        else:
            vault.set_label(question, answer)
    text = "Your label is forgotten." if forget else "Your label is kept on this device."
    emit({"question": question, "kept": not forget}, output_format, text=text)


def _known(place: Path) -> set[str]:
    """Digests of experiments that the person was invited to, or that the device has met."""
    known = set(invitations(place))
    if (place / STATE_FILE).exists():
        with closing(open_state(place)) as state:
            known |= {record.digest for record in state.records()}
    return known


def show_vault(
    words: Annotated[bool, typer.Option("--words", help="List the features themselves, on this terminal.")] = False,
    source: Annotated[str | None, typer.Option(help="Only those of this source.", show_default=False)] = None,
    config: ConfigOption = None,
    folder: FolderOption = None,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Show what the vault holds, by source.

    Only numbers are shown, unless you ask for the words. The vault is a file readable by you alone, and encrypted only
    if you have set a passphrase (secvm participant protect-keys). Example:

    \b
        ./secvm participant show-vault
    """
    with open_vault(device_of(config, folder)[1], passphrase_of(passphrase_file, passphrase_fd)) as vault:
        result: dict[str, object] = {
            "features": vault.summary(),
            "read": {name: _when(reading) for name, reading in vault.readings().items()},
            "excluded": sorted(vault.excluded()),
            "labels": len(vault.answered()),
        }
        shown = vault.features(source).value if words else {}
    if words:
        result["words"] = dict(sorted(shown.items(), key=lambda item: (-item[1], item[0])))
    emit(result, output_format)


def _when(reading: Provenance) -> str:
    day = datetime.fromtimestamp(reading.read_at / 1000, UTC).date()
    return f"{day}, {'all of it' if reading.days is None else f'{reading.days} days'}, by {reading.reader}"


def protect_keys(
    config: ConfigOption = None,
    folder: FolderOption = None,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
    new_passphrase_file: NewPassphraseFile = None,
    new_passphrase_fd: NewPassphraseFd = None,
    remove: Remove = False,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Set, change or remove the passphrase of your data.

    It is then needed whenever the device runs. That you take part, in what, and how much was sent stays readable.
    Killed at any moment nothing is lost, and running this again finishes it. Example:

    \b
        ./secvm participant protect-keys
    """
    from secvm.participant.storage.passphrase import protect_device, unprotect_device

    settings, place = device_of(config, folder)
    credential = None if settings is None or settings.relay is None else settings.relay.credential_file
    old = passphrase_of(passphrase_file, passphrase_fd)
    new = new_passphrase_of(new_passphrase_file, new_passphrase_fd, remove=remove)
    if new is None:
        unprotect_device(place, credential, old=old, dice=os.urandom)
    else:
        protect_device(place, credential, old=old, new=new, dice=os.urandom)
    text = "It is under the passphrase now." if new is not None else "It is under no passphrase any more."
    emit({"protected": new is not None, "folder": str(place)}, output_format, text=text)
