"""What the operator's page shows is what its API tells, and that is what the coordinator signs and publishes."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from typing import Any

import pytest

from secvm.dashboard import view
from secvm.dashboard.public_status import ExperimentStatus
from secvm_lab.rigs.browser import Window
from secvm_lab.showcase import Showcase
from tests.system.browser.facts import HOSTILE, api, await_fact, facts, open_page, same, settle

#: Of the running clock, of what came in the last second and of the last audit: not the same in two moments.
MOVING = {"time_left", "packages_per_s", "commit_ms", "backlog", "audit_at"}
#: What a page says of itself: whether it holds a key, how many remarks it has written.
ITS_OWN = {"key_held", "notes", "abandoned", "unopened", "warning"}


def summary_of(showcase: Showcase) -> dict[str, Any]:
    told: dict[str, Any] = next(
        one for one in api(showcase, "/api/now")["experiments"] if one["digest"] == showcase.digest
    )
    return told


def shown_of(summary: dict[str, Any]) -> dict[str, Any]:
    """What the values of one experiment must be, by the API's word alone."""
    last, running = summary["last"], summary["running"]
    return {
        "title": summary["title"],
        "standing": summary["standing"],
        "round": running["number"] if running else summary["rounds_told"],
        "rounds_planned": summary["rounds_planned"],
        "participants": last["trained"]["value"],
        "floor": summary["floor"],
        "accuracy": last["accuracy"],
        "auc": summary["auc"],
        "epsilon": summary["epsilon"] if summary["epsilon"] is not None else summary["epsilon_planned"],
    }


def differing(shown: dict[str, str], told: dict[str, Any]) -> dict[str, tuple[str | None, Any]]:
    """Values that are shown and not told, told and not shown, or not the same."""
    names = (shown.keys() | told.keys()) - MOVING - ITS_OWN
    both = {name: (shown.get(name), told.get(name, "not told")) for name in names}
    return {name: (text, value) for name, (text, value) in both.items() if text is None or not same(text, value)}


def test_the_overview_shows_what_the_api_tells(window: Window, showcase: Showcase) -> None:
    open_page(window, showcase, "overview")
    shown = facts(window, f'[data-digest="{showcase.digest}"]')
    assert differing(shown, shown_of(summary_of(showcase))) == {}
    assert window.faults() == []
    # Of experiments with one title each has its digest, and its beginning; the clock says in which zone.
    known = window.page.locator(f'[data-digest="{showcase.digest}"] .marks .remark')
    assert re.fullmatch(rf"{showcase.digest[:8]}… · from \d+ \w+ \d{{4}}, \d\d:\d\d", known.inner_text())
    assert re.fullmatch(r"\d\d:\d\d \S+", window.page.locator("#link-state").get_attribute("data-time") or "")


def test_an_experiment_shows_what_the_api_tells(window: Window, showcase: Showcase) -> None:
    open_page(window, showcase, "experiment")
    summary, detail = summary_of(showcase), api(showcase, f"/api/experiments/{showcase.digest}")
    rounds = api(showcase, f"/api/experiments/{showcase.digest}/rounds")["columns"]
    told = shown_of(summary) | {
        # The newest first, by how they ended.
        "rounds": ",".join([end or state for end, state in zip(rounds["end"], rounds["state"], strict=True)][::-1]),
        "accuracy_low": summary["last"]["accuracy_low"],
        "accuracy_high": summary["last"]["accuracy_high"],
        "auc_planned": summary["auc_planned"],
        "epsilon_planned": summary["epsilon_planned"],
        **{name: detail[name] for name in ("operator", "contact", "purpose", "invite")},
        "privacy_kind": detail["privacy"]["kind"],
        "round_state": (summary["running"] or {}).get("state"),
        "budget": detail["budget"],
        "bins": detail["bins"],
        "hashes": detail["hashes"],
        "features_per_person": detail["features_per_person"],
        "labels": ",".join(detail["labels"]),
        "relays": len(detail["relays"]),
        "devices": (summary["running"] or {}).get("devices"),
        "log_size": detail["log"]["size"],
        "log_root": detail["log"]["root"],
        "cosigned": ",".join(detail["log"]["cosigned"]),
    }
    assert differing(facts(window), told) == {}
    words = window.page.locator("[data-fact=statement]").inner_text()
    for sentence in detail["privacy"]["statement"]:
        assert " ".join(sentence.split()) in " ".join(words.split())


def test_the_server_page_shows_what_the_api_tells(window: Window, showcase: Showcase) -> None:
    open_page(window, showcase, "server")
    now, shown = api(showcase, "/api/now"), facts(window)
    server, audit = now["server"], now["server"]["audit"]
    told = {
        "reachable": now["coordinator"]["reachable"],
        "started_at": server["started_at"],
        "packages_total": server["packages_total"],
        "stored_total": server["stored_total"],
        "refused_total": sum(server["refused_total"].values()),
        "log_size": server["log"]["size"],
        "log_root": server["log"]["root"],
        "cosigned": ",".join(server["log"]["cosigned"]),
        "quorum": server["log"]["quorum"],
        "audit_ok": audit["ok"],
        "audit_faults": len(audit["faults"]),
        "audit_warnings": len(audit["warnings"]),
    }
    assert differing(shown, told) == {}
    witnesses = window.page.eval_on_selector_all("[data-witness]", "all => all.map((one) => one.dataset.witness)")
    assert sorted(witnesses) == sorted(one["name"] for one in server["witnesses"])


#: A number as people read it, with what may stand around it.
_READ = re.compile(r"(?:ε |> |≈ )?([0-9][0-9,]*)(\.[0-9]+)?( %)?(?: (?:of|entr|witness).*)?")


@pytest.mark.parametrize(
    ("page", "least"),
    [
        ("overview", {"round", "rounds_planned", "participants", "floor", "accuracy", "auc"}),
        (
            "experiment",
            {"round", "participants", "floor", "accuracy", "auc", "auc_planned", "budget", "bins", "log_size"},
        ),
        ("server", {"packages_total", "stored_total", "log_size", "quorum"}),
    ],
)
def test_what_people_read_is_the_number_beside_it_as_far_as_it_is_written(
    window: Window, showcase: Showcase, page: str, least: set[str]
) -> None:
    open_page(window, showcase, page)
    shown = window.page.eval_on_selector_all(
        "main [data-fact][data-value]",
        "all => all.filter((one) => one.checkVisibility())"
        ".map((one) => [one.dataset.fact, one.dataset.value, one.innerText.replaceAll('\\u00a0', ' ').trim()])",
    )
    read = set()
    for name, value, text in shown:
        found = _READ.fullmatch(text)
        if found is None or name in MOVING:
            continue
        whole, rest, share = found[1].replace(",", ""), found[2] or "", found[3]
        told = float(value) * (100 if share else 1)
        # Half of the last digit; an AUC near 1 is "> 0.99".
        off = max(0.5 * 10.0 ** -max(0, len(rest) - 1), 0.01 if text.startswith(">") else 0)
        assert abs(float(whole + rest) - told) <= off * (1 + 1e-9), (name, value, text)
        read.add(name)
    assert least <= read


def test_the_api_tells_what_the_coordinator_publishes(showcase: Showcase) -> None:
    # The page asks the coordinator now and then; the newest round may not have reached it.
    showcase.federation._await(lambda: summary_of(showcase)["rounds_told"] == showcase.played, "the newest round")
    status, summary = showcase.status(), summary_of(showcase)
    columns = api(showcase, f"/api/experiments/{showcase.digest}/rounds")["columns"]
    for name in ("title", "standing", "rounds_planned", "labels", "floor", "budget", "notes", "test"):
        assert summary[name] == status[name], name
    assert summary["rounds_told"] == status["leakage"]["rounds_told"] == showcase.played
    assert (summary["auc"], summary["auc_planned"]) == (status["leakage"]["auc"], status["leakage"]["planned_auc"])
    # What the columns are of a status, number by number: tests/unit/dashboard/test_view.py.
    read = ExperimentStatus.read(json.dumps(status).encode(), digest=showcase.digest)
    assert columns == view.columns(read, range(1, len(read.rounds) + 1))


def test_the_newest_tally_has_everybody(showcase: Showcase) -> None:
    tallied = [one for one in showcase.status()["rounds"] if "people" in one]
    assert len(tallied) == showcase.played
    for one in tallied:
        tested = sum(sum(row) for row in one["cells"])
        assert sum(one["people"].values()) + tested == showcase.participants


def test_a_hostile_title_is_shown_as_text(window: Window, showcase: Showcase) -> None:
    for page in ("overview", "experiment", "figure"):
        open_page(window, showcase, page)
        assert HOSTILE in window.page.locator("main").inner_text()
        assert window.page.locator("main img, main script, main b:text('bold')").count() == 0
        assert window.page.title() != "taken"
    assert window.faults() == []


def test_who_asks_stands_first_and_the_invite_can_be_copied(window: Window, showcase: Showcase) -> None:
    open_page(window, showcase, "experiment")
    invite = f"secvm:{showcase.federation.relay_url}#{showcase.digest}"
    assert facts(window)["invite"] == invite
    assert f"Asked by {HOSTILE}" in window.page.locator("main").inner_text()
    window.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    window.page.locator("[data-action=copy-invite]").click()
    window.page.locator("[data-action=copy-invite]:text('Copied')").wait_for()
    assert window.page.evaluate("navigator.clipboard.readText()") == invite
    assert window.faults() == []


# ── plots ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["recall", "precision"])
def test_a_plots_csv_has_the_numbers_of_the_api(window: Window, showcase: Showcase, name: str) -> None:
    window.page.goto(f"{showcase.url}/experiment/{showcase.digest}/{name}")
    settle(window)
    with window.page.expect_download() as downloading:
        window.page.locator(f"[data-figure={name}]").get_by_role("button", name="CSV").click()
    assert downloading.value.suggested_filename.endswith(".csv")
    header, *rows = csv.reader(io.StringIO(downloading.value.path().read_text(encoding="utf-8")))
    columns = api(showcase, f"/api/experiments/{showcase.digest}/rounds")["columns"]
    counted = [i for i, value in enumerate(columns["accuracy"]["value"]) if value is not None]
    by_round = {int(float(row[0])): row for row in rows}
    for label in showcase.status()["labels"]:
        place = next(i for i, title in enumerate(header) if label in title)
        for i in counted:
            told = columns[name][label]["value"][i]
            cell = by_round[columns["number"][i]][place]
            assert (cell == "") if told is None else math.isclose(float(cell), told, rel_tol=1e-12), (label, i)


def test_a_plots_picture_is_a_png_of_a_sensible_size(window: Window, showcase: Showcase) -> None:
    open_page(window, showcase, "figure")
    with window.page.expect_download() as downloading:
        window.page.locator("[data-figure=recall]").get_by_role("button", name="PNG").click()
    data = downloading.value.path().read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    wide, high = (int.from_bytes(data[at : at + 4]) for at in (16, 20))
    assert 600 <= wide <= 6000
    assert 200 <= high <= 6000
    assert 2_000 < len(data) < 2_000_000
    assert window.faults() == []


def test_every_plot_can_be_had_as_numbers_and_as_a_picture(window: Window, showcase: Showcase) -> None:
    taken = set()
    # Without a guarantee the planner draws a curve too.
    for page, query in (("experiment", ""), ("new", "?privacy=none")):
        open_page(window, showcase, page, query)
        for plot in window.page.locator("figure.chart:visible").all():
            for label, begins in (("CSV", b"round,"), ("PNG", b"\x89PNG\r\n\x1a\n")):
                with window.page.expect_download() as downloading:
                    plot.get_by_role("button", name=label).click()
                name = downloading.value.suggested_filename
                wanted = b"bins," if name == "auc-bins.csv" else begins
                assert downloading.value.path().read_bytes().startswith(wanted), name
                taken.add(name)
    plots = ("recall", "precision", "participants", "accuracy", "leakage", "auc-bins")
    assert taken == {f"{plot}.{kind}" for plot in plots for kind in ("csv", "png")}
    assert window.faults() == []


def test_a_deep_link_opens_the_plot_and_the_stretch(window: Window, showcase: Showcase) -> None:
    open_page(window, showcase, "figure", "?from=2&to=3")
    assert window.page.locator("main").get_attribute("data-view") == "figure"
    assert window.page.locator("[data-figure]").evaluate_all("all => all.map((one) => one.dataset.figure)") == [
        "recall"
    ]
    assert "from=2&to=3" in window.page.url
    # The stretch is drawn with the frame after the one that draws everything. It is never shorter than some rounds, so
    # which others are seen beside these two depends on how many there are.
    window.page.wait_for_selector("[data-figure=recall] .zoomed")
    ticks = window.page.locator("[data-figure=recall] svg text").evaluate_all(
        "all => all.map((one) => one.textContent)"
    )
    assert {"2", "3"} <= set(ticks)


def test_every_plot_of_an_experiment_has_an_address_of_its_own(window: Window, showcase: Showcase) -> None:
    open_page(window, showcase, "experiment")
    names = window.page.locator("[data-figure]:visible").evaluate_all("all => all.map((one) => one.dataset.figure)")
    assert {"recall", "precision", "participants", "leakage"} <= set(names)
    for name in names:
        window.page.goto(f"{showcase.url}/experiment/{showcase.digest}/{name}")
        settle(window)
        window.page.locator(f"[data-figure={name}] svg").first.wait_for()
    assert window.faults() == []


@pytest.mark.parametrize(
    "path", ["/elsewhere", "/experiment", "/experiment/not-a-digest", "/static/none.js", "/api/none"]
)
def test_an_unknown_address_is_not_found(window: Window, showcase: Showcase, path: str) -> None:
    answer = window.page.goto(showcase.url + path)
    assert answer is not None
    assert answer.status == 404


# ── live ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_round_appears_while_one_watches(window: Window, showcase: Showcase) -> None:
    open_page(window, showcase, "experiment")
    window.page.evaluate("window.__stayed = true")
    before = facts(window)
    showcase.play()
    await_fact(window, "round", int(before["round"]) + 1)
    summary = summary_of(showcase)
    await_fact(window, "auc", summary["auc"])
    assert summary["rounds_told"] == showcase.played
    told = shown_of(summary)
    assert differing({name: value for name, value in facts(window).items() if name in told}, told) == {}
    assert window.page.evaluate("window.__stayed") is True
    assert window.faults() == []


def test_another_standing_appears_while_one_watches(window: Window, showcase: Showcase) -> None:
    open_page(window, showcase, "overview")
    window.page.evaluate("window.__stayed = true")
    root = f'[data-digest="{showcase.digest}"]'
    try:
        showcase.operate("pause")
        await_fact(window, "standing", "paused", root)
    finally:
        showcase.operate("resume")
    await_fact(window, "standing", "running", root)
    assert window.page.evaluate("window.__stayed") is True
