"""``secvm coordinator``: set one up, and run it."""

from __future__ import annotations

import enum
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secvm.cli.commands import group
from secvm.cli.output import Format, FormatOption, emit
from secvm.cli.parties import (
    ConfigOption,
    PassphraseFd,
    PassphraseFile,
    add_protect_keys,
    passphrase_of,
    worth_another_start,
)
from secvm.errors import BadInputError

if TYPE_CHECKING:
    from secvm.coordinator.store.postgres_migrations import Migration
    from secvm.runtime.disk.secret_files import Passphrase

#: Where the address of a database may stand, so that it is in no list of processes.
DATABASE_VARIABLE = "SECVM_DATABASE"

app = group("Run rounds: opens capsules, counts, publishes.")


@app.command()
def serve(
    config: ConfigOption,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C.

    What happens is told on stderr as JSON lines, and nothing about anybody is in it. Ends with 2 where settings
    or keys cannot be used, with 1 where the store does not answer: then it may be started again. Example:

    \b
        ./secvm coordinator serve --config coordinator/coordinator.toml
    """
    from secvm.coordinator.main import serve as serve_coordinator

    with worth_another_start():
        serve_coordinator(config, passphrase_of(passphrase_file, passphrase_fd))


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Folder for its settings and state.", show_default=False)],
    database: Annotated[
        str | None,
        typer.Option(
            help="Address of a PostgreSQL database: then it is the first of many nodes.",
            envvar=DATABASE_VARIABLE,
            show_default=False,
        ),
    ] = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Make a new coordinator, and show its admin key once.

    Where SECVM_DATABASE is set it is the first node on that database, and the address is in no list of processes.
    Example:

    \b
        ./secvm coordinator init coordinator
    """
    from secvm.coordinator.main import SETTINGS_FILE, initialise, log_key

    admin_key = initialise(folder, database)
    settings, public = folder / SETTINGS_FILE, log_key(folder / "state").data.hex()
    text = (
        f"settings   {settings}\n"
        f"admin key  {admin_key}\n"
        f"log key    {public}   (public: for witnesses, if the rounds shall stand in a log)\n"
        "\n"
        "The admin key is shown this once; the coordinator keeps only its SHA-256. Put it into a file that only you\n"
        f"can read. Look through the settings, then: ./secvm coordinator serve --config {settings}"
    )
    emit({"settings": str(settings), "admin_key": admin_key, "log_key": public}, output_format, text=text)


def _secret_files(config: Path) -> Sequence[Path]:
    from secvm.coordinator.keys import secret_files

    return secret_files(config)


add_protect_keys(app, "coordinator", _secret_files)


@app.command()
def policy(
    config: ConfigOption,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
) -> None:
    """Print its log, witnesses and quorum as a policy file.

    The file is C2SP's (c2sp.org/tlog-policy). Devices take it as [trust] policy, 'secvm audit' as --policy; its line
    'log' is what a public witness is told. Example:

    \b
        ./secvm coordinator policy --config coordinator/coordinator.toml > log.policy
    """
    from secvm.coordinator.keys import log_policy

    made = log_policy(config, passphrase_of(passphrase_file, passphrase_fd))
    typer.echo(made.to_bytes(), nl=False)


@app.command("new-admin-key")
def new_admin_key(config: ConfigOption, output_format: FormatOption = Format.TXT) -> None:
    """Make another admin key, and show it once.

    The old one counts until the next start. Example:

    \b
        ./secvm coordinator new-admin-key --config coordinator/coordinator.toml
    """
    from secvm.coordinator.keys import new_admin_key as make_admin_key

    key = make_admin_key(config, os.urandom)
    text = (
        f"admin key  {key}\n"
        "\n"
        "It is shown this once; the coordinator keeps only its SHA-256. Restart the coordinator: until then the old\n"
        "key is the one that counts."
    )
    emit({"admin_key": key}, output_format, text=text)


class MigrateAction(enum.StrEnum):
    """What to do with the tables of a database."""

    UP = "up"
    DOWN = "down"
    STATUS = "status"


@app.command()
def migrate(
    action: Annotated[MigrateAction, typer.Argument(help="up, down, or status.", show_default=False)],
    database: Annotated[
        str | None,
        typer.Option(help="Address of the database; or --config.", envvar=DATABASE_VARIABLE, show_default=False),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Settings that name the database.", show_default=False)] = None,
    before: Annotated[bool, typer.Option("--before", help="Only what new nodes need: before they start.")] = False,
    after: Annotated[
        bool, typer.Option("--after", help="Only what old nodes needed: after the last of them has stopped.")
    ] = False,
    to: Annotated[
        int | None, typer.Option(help="With down: the last migration that stays; 0: none.", min=0, show_default=False)
    ] = None,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Bring the tables of a PostgreSQL database up to date.

    It can also take them back to an earlier version. With neither --before nor --after, up does all of it: for when no
    node runs. So is down: what is in the tables that go is lost. Examples:

    \b
        ./secvm coordinator migrate status --config coordinator/coordinator.toml
        ./secvm coordinator migrate down --to 3 --config coordinator/coordinator.toml
        SECVM_DATABASE=postgresql://secvm@db.example/secvm ./secvm coordinator migrate up --before
    """
    url = _address(database, config, passphrase_of(passphrase_file, passphrase_fd))
    # Late: who keeps everything in a file needs no driver for a database.
    from secvm.coordinator.store import postgres_migrations as migrations

    if before and after:
        raise BadInputError("--before and --after are two deploys' halves: give one of them, or neither")
    if (before or after) and action is not MigrateAction.UP:
        raise BadInputError("--before and --after go with up")
    if (to is None) is (action is MigrateAction.DOWN):
        raise BadInputError("down needs --to, the number of the last migration that stays; up and status do not")
    done: list[Migration] = []
    if action is MigrateAction.UP:
        done = migrations.migrate(url, "before" if before else "after" if after else "all")
    elif to is not None:
        done = migrations.migrate_down(url, to)
    migrated = migrations.migrated(url)
    lines = [f"{'there  ' if there else 'pending'}  {migration}" for migration, there in migrated]
    if action is not MigrateAction.STATUS:
        word = "done" if action is MigrateAction.UP else "undone"
        lines = [f"{word}  {migration}" for migration in done] or ["nothing to do"]
    content = {
        "done": [str(migration) for migration in done],
        "there": [str(migration) for migration, there in migrated if there],
        "pending": [str(migration) for migration, there in migrated if not there],
    }
    emit(content, output_format, text="\n".join(lines))


def _address(database: str | None, config: Path | None, passphrase: Passphrase) -> str:
    """Where the database is. A node's settings come first: the environment may name another one."""
    from secvm.coordinator.settings import CoordinatorProgramSettings
    from secvm.runtime.settings import read_settings

    if config is not None:
        settings = read_settings(config, CoordinatorProgramSettings)
        if settings.database is None:
            raise BadInputError(f"the settings {config} name no database")
        return settings.database.address(os.environ, passphrase)
    if database is None:
        raise BadInputError(f"give --database or --config, or set {DATABASE_VARIABLE}")
    return database


@app.command()
def build_lanes(*, output_format: FormatOption = Format.TXT) -> None:
    """Compile the machine code that opens eight capsules at once.

    Needs a C compiler, and a CPU with AVX-512 IFMA and SHA extensions. A coordinator that starts afterwards
    finds the code by itself; without it, it opens one capsule after the other. Example:

    \b
        ./secvm coordinator build-lanes
    """
    from secvm.runtime.lanes import build_lanes as build
    from secvm.runtime.lanes import find_lanes

    folder = build()
    lanes = find_lanes()
    verdict = "a coordinator uses it" if lanes.lanes is not None else f"of no use on this machine: {lanes.reason}"
    emit(
        {"folder": str(folder), "usable": lanes.lanes is not None, "reason": lanes.reason},
        output_format,
        text=f"{folder}: {verdict}",
    )
