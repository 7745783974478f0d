"""The demonstration's page and summary."""

from __future__ import annotations

import html
import json
import math
import re
from dataclasses import replace

from secvm_lab.demo.report import report_page
from secvm_lab.demo.result import Checks, Leakage
from tests.unit.lab.results import a_result, protected, read


def test_every_figure_tells_what_is_to_be_seen() -> None:
    specs = [json.loads(html.unescape(spec)) for spec in re.findall(r'data-spec="([^"]*)"', report_page(a_result()))]
    assert len(specs) == 5
    assert all(spec["title"] and len(spec["description"]) > 40 for spec in specs)


def test_the_numbers_on_the_page_are_those_of_the_summary() -> None:
    result = a_result()
    summary, text = result.summary(), " ".join(read(report_page(result)).text).replace("\u00a0", " ")
    for share in (summary["accuracy"], summary["central_accuracy"], *summary["recall"].values()):
        assert f"{100 * share:.1f} %" in text
    for share in (*summary["precision"].values(), *summary["baseline"].values()):
        assert f"{100 * share:.1f} %" in text
    assert f"{summary['packages_sent']:,} packages were acknowledged" in text
    assert f"{summary['packages_counted']:,} were counted: {summary['lost']} lost" in text
    assert f"{summary['counted_twice']} counted twice" in text
    assert f"{summary['seconds']:.0f} s" in text
    for line in result.lines:
        assert f"{line.sent:,}" in text
    assert result.leakage is not None
    assert f"{result.leakage.auc:.2f}" in text


def test_the_summary_has_its_keys_in_their_order() -> None:
    plain = a_result().summary()
    assert " ".join(plain) == (
        "guarantee epsilon delta plain_accuracy attack_auc attack_auc_interval attack_auc_allowed attack_auc_plain"
        " participants rounds budget accuracy central_accuracy recall precision baseline packages_sent packages_counted"
        " lost counted_twice bit_exact_with_offline witnesses audit steps_replayed recounted privacy seconds"
        " setup_seconds report page"
    )
    assert list(a_result(protected=protected(), leakage=None).summary()) == list(plain)


def test_what_went_wrong_is_shown_as_wrong() -> None:
    faults = ("the log was forked: <two> trees",)
    checks = Checks(
        packages_sent=100, packages_counted=98, counted_twice=1, bit_exact=False, faults=faults, steps_replayed=2
    )
    assert checks.lost == 3
    assert checks.audit == "failed"
    assert not checks.as_they_should_be
    page = report_page(a_result(checks=checks))
    assert page.count('<li class="no">') == 4
    assert "&lt;two&gt; trees" in page
    assert "differ from" in page


def test_a_label_cannot_write_into_the_page() -> None:
    page = report_page(a_result(labels=("<script>alert(1)</script>", "b&b")))
    assert page.count("<script") == 1  # ours
    read(page)


def test_leakage_of_no_rounds_is_a_coin() -> None:
    assert Leakage(q=1.0, summed=()).auc == 0.5


def test_with_a_guarantee_the_page_states_epsilon_assumptions_and_the_attack() -> None:
    result = a_result(protected=protected(label_flip=math.inf), leakage=None)
    page = report_page(result)
    text = " ".join(read(page).text).replace("\u00a0", " ")
    for said in (
        "(ε, δ) = (1, 1e-05) holds for everybody who takes part as long as one of two relays is honest",
        "nothing is assumed of the coordinator, the witnesses or other devices",
        "0.98",
        "22,000",
        "the mixing relay",
        "0.552 (0.534 to 0.570)",
        "0.619",
        "1.000",
        "88.1 %",
        "protects nobody",
    ):
        assert said in text
    assert "No formal guarantee" not in page
    summary = result.summary()
    assert (summary["guarantee"], summary["epsilon"], summary["delta"]) == ("formal", 1.0, 1e-5)
    assert (summary["plain_accuracy"], summary["attack_auc"]) == (0.8813, 0.5521)
    assert (summary["attack_auc_interval"], summary["attack_auc_allowed"]) == ([0.5343, 0.5699], 0.6182)
    assert summary["attack_auc_plain"] == 1.0
    assert (summary["privacy"]["kind"], summary["privacy"]["label_flip"]) == ("relays", None)


def test_a_plain_run_promises_nothing_and_names_the_laws_auc() -> None:
    result = a_result()
    summary = result.summary()
    assert (summary["guarantee"], summary["epsilon"], summary["attack_auc_allowed"]) == ("none", None, None)
    assert result.leakage is not None
    assert summary["attack_auc"] == summary["attack_auc_plain"] == round(result.leakage.auc, 4)
    assert summary["privacy"] == {"kind": "plain"}
    assert "No formal guarantee" in report_page(result)


def test_bars_are_as_long_as_their_values() -> None:
    page = report_page(a_result(protected=protected(), leakage=None))
    widths = [float(found) for found in re.findall(r'<rect class="bar-[0-9]" width="([0-9.]+)" height="10"/>', page)]
    # The attack's begin at a coin's .5.
    assert widths[:3] == [10.4, 23.6, 100.0]
    assert widths[3:] == [87.2, 88.1, 86.4]


def test_an_attack_above_what_is_allowed_is_not_as_it_should_be() -> None:
    found = protected()
    assert a_result(protected=found, leakage=None).as_it_should_be
    better = replace(found, attack=replace(found.attack, interval=(0.63, 0.66)))
    assert not a_result(protected=better, leakage=None).as_it_should_be
