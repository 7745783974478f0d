"""A relay's token changes while both are taken: two tables of one relay in the settings, then one again."""

import asyncio
import hashlib
from pathlib import Path

from secvm.coordinator.intake.package_routes import PackageRoutes
from secvm.coordinator.settings import CoordinatorProgramSettings
from secvm.runtime.settings import read_settings
from tests.unit.coordinator.package_path import running

OLD, NEW = "token-of-last-year", "token-of-this-year"
SETTINGS = '[state]\nfolder = "state"\n[epochs]\nperiod_s = 60\nlead_s = 5\n'


def taken(folder: Path, *tokens: str) -> set[str]:
    """Which of the two a coordinator takes whose settings have these."""
    told = "".join(
        f'[[relays]]\nname = "relay.example"\ntoken_sha256 = "{hashlib.sha256(token.encode()).hexdigest()}"\n'
        for token in tokens
    )
    (folder / "coordinator.toml").write_text(SETTINGS + told, encoding="utf-8")
    settings = read_settings(folder / "coordinator.toml", CoordinatorProgramSettings)

    async def ask() -> set[str]:
        async with running() as path:
            routes = PackageRoutes(
                path.routes.gateway,
                path.ingest,
                path.clock,
                tokens=[bytes.fromhex(relay.token_sha256) for relay in settings.relays],
            )
            asked = {token: {"authorization": f"Bearer {token}"} for token in (OLD, NEW)}
            return {token for token, headers in asked.items() if routes.before_body("/v1/deposit", headers) is None}

    return asyncio.run(ask())


def test_a_token_is_changed_without_a_moment_in_which_none_is_taken(tmp_path: Path) -> None:
    assert taken(tmp_path, OLD) == {OLD}
    assert taken(tmp_path, OLD, NEW) == {OLD, NEW}
    assert taken(tmp_path, NEW) == {NEW}
    assert taken(tmp_path) == set()
