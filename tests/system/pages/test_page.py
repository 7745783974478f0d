"""Longer cases of ``tests.unit.lab.test_report_pages.py``."""

import struct
from pathlib import Path

from secvm.pages.pictures import picture
from secvm_lab.reports import ReportPage, write_report
from tests.unit.lab.test_report_pages import _figures


def test_a_report_is_a_page_and_of_each_figure_its_numbers_and_its_picture(tmp_path: Path) -> None:
    page = ReportPage("Two", "figures")
    figures = _figures()[1:3]
    for figure in figures:
        page.figure(figure, "")
    assert write_report(tmp_path / "new" / "folder", page) == ""
    assert (tmp_path / "new/folder/report.html").read_text("utf-8") == page.html()
    for figure in figures:
        assert (tmp_path / f"new/folder/{figure.name}.csv").read_text("utf-8") == figure.csv()
        drawn = (tmp_path / f"new/folder/{figure.name}.png").read_bytes()
        assert drawn == picture(figure)
        assert drawn[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", drawn[16:24]) == (1440, 810)
        assert b"Software" not in drawn


def test_a_picture_is_drawn_of_every_kind_of_figure() -> None:
    assert all(picture(figure)[:4] == b"\x89PNG" for figure in _figures() if figure.name != "nights")
