"""The list of pictures is complete: every page that a server has, every dialog, every report."""

from __future__ import annotations

from secvm.dashboard.app import PAGES
from secvm_lab.cli.dev.screenshots import GROUPS, PICTURES
from secvm_lab.screenshots import OPERATOR, PERSON, REPORTS


def test_every_page_of_the_operator_is_taken() -> None:
    assert set(PAGES) == {shot.route for shot in OPERATOR if shot.route}


def test_no_two_pictures_have_one_name() -> None:
    names = [shot.name for shot in (*OPERATOR, *PERSON)] + [f"report-{name}" for name in REPORTS]
    assert len(set(names)) == len(names)


def test_every_group_can_be_asked_for_and_pictures_of_the_documentation_are_of_shots() -> None:
    assert set(GROUPS) == {"operator", "person", *REPORTS}
    shots = {shot.name for shot in (*OPERATOR, *PERSON)} | {f"report-{name}" for name in REPORTS}
    assert {name for name, _ in PICTURES.values()} <= shots
