"""``secvm dashboard``: the operator's page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secvm.cli.commands import group
from secvm.cli.coordinator_options import COORDINATOR_VARIABLE, usual_coordinator
from secvm.cli.output import note
from secvm.errors import BadInputError, SecVMError

if TYPE_CHECKING:
    from secvm.dashboard.main import DashboardSettings
    from secvm.runtime.clock import Clock

app = group("Watch a coordinator in a browser; change it with the admin key.")
#: Faults and warnings that are shown of one audit.
_MOST_SENTENCES = 50


@app.callback()
def _root() -> None:
    """A group, also while it has one command."""


@app.command()
def serve(
    coordinator: Annotated[
        str | None,
        typer.Option(help=f"The coordinator's URL; else {COORDINATOR_VARIABLE}.", metavar="URL", show_default=False),
    ] = None,
    listen: Annotated[
        str | None, typer.Option(help="Where the page is; 127.0.0.1:8760 without.", metavar="HOST:PORT")
    ] = None,
    public_host: Annotated[
        list[str] | None,
        typer.Option(help="A name by which browsers may ask for it, besides the loopback's. Repeat for more."),
    ] = None,
    audit_every: Annotated[
        float | None,
        typer.Option(help="Seconds from one audit to the next, 600 without; 0: only one.", metavar="SECONDS"),
    ] = None,
    time_zone: Annotated[str | None, typer.Option(help="Where nights are shaded; UTC without.", metavar="ZONE")] = None,
    config: Annotated[
        Path | None, typer.Option(help="Settings of the page, TOML; what is said here goes before.", metavar="FILE")
    ] = None,
) -> None:
    """Serve the operator's page until SIGTERM or Ctrl-C.

    It reads what the coordinator shows to everybody, and keeps nothing; it has no key. Who wants to change something
    types the admin key into the page, which passes it on and forgets it with the tab. docs/how-to/look.md tells what is
    shown, and how to put it behind TLS. Example:

    \b
        ./secvm dashboard serve --coordinator http://127.0.0.1:8750
    """
    from secvm.dashboard.main import serve as serve_page

    settings = _settings(coordinator, listen, public_host, audit_every, time_zone, config)

    def audit(clock: Clock) -> dict[str, Any]:
        return audited(settings.coordinator.url, clock)

    serve_page(settings, audit=audit, listening=lambda address: note(f"the page is at {address}"))


def _settings(
    coordinator: str | None,
    listen: str | None,
    public_host: list[str] | None,
    audit_every: float | None,
    time_zone: str | None,
    config: Path | None,
) -> DashboardSettings:
    """The file, and over it what was typed."""
    import json

    from secvm.dashboard.main import DashboardSettings, read_listen
    from secvm.runtime.settings import parse_settings, read_toml

    content: dict[str, Any] = {} if config is None else read_toml(config)
    typed: list[tuple[str, str, object]] = [
        ("coordinator", "url", coordinator),
        ("page", "public_hosts", public_host or None),
        ("page", "time_zone", time_zone),
        ("audit", "every_s", audit_every),
        *(() if listen is None else (("listen", name, value) for name, value in read_listen(listen))),
    ]
    for table, name, value in typed:
        if value is not None:
            # What is no table is refused below.
            content[table] = (
                {**content.get(table, {}), name: value} if isinstance(content.get(table, {}), dict) else None
            )
    usual = usual_coordinator()
    if "coordinator" not in content and usual is not None:
        content["coordinator"] = {"url": usual}
    if "coordinator" not in content:
        raise BadInputError(f"say whom to look at: --coordinator URL, or --config FILE, or set {COORDINATOR_VARIABLE}")
    where = "the settings of the page" if config is None else f"the settings {config}"
    settings = parse_settings(json.dumps(content, default=str), DashboardSettings, where)
    return settings if config is None else settings.placed(config.resolve().parent)


def audited(url: str, clock: Clock) -> dict[str, Any]:
    """One audit of everything that a coordinator shows, in a few words."""
    from secvm.auditor.audit import audit_files
    from secvm.auditor.files import WebFiles
    from secvm.runtime.clock import SteadyClock

    try:
        report = audit_files(WebFiles(url, SteadyClock()), now=clock.now)
    except SecVMError as fault:
        return {"ok": None, "faults": [], "warnings": [], "steps_replayed": 0, "problem": str(fault)}
    return {
        "ok": report.ok,
        "faults": [fault.sentence for fault in report.faults[:_MOST_SENTENCES]],
        "warnings": report.warnings[:_MOST_SENTENCES],
        "steps_replayed": report.steps_replayed,
        "problem": None,
    }
