"""The stranger's verifier is small and stands alone: that is why a stranger can believe it."""

import re
from pathlib import Path

VERIFIER = Path(__file__).resolve().parents[2] / "verifier"
MOST_LINES = 400


def test_program_has_at_most_four_hundred_lines_blank_ones_and_comments_included() -> None:
    lines = (VERIFIER / "verify.js").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= 200


def test_program_uses_no_package_and_the_page_no_script_inside_and_no_other_server() -> None:
    for name in ("verify.js", "page.js"):
        text = (VERIFIER / name).read_text(encoding="utf-8")
        assert set(re.findall(r"""(?:require\(|import |from )["']([^"']+)""", text)) <= {"node:fs"}
        assert not re.search(r"\beval\(|new Function|innerHTML", text)
    page = (VERIFIER / "verify.html").read_text(encoding="utf-8")
    assert re.findall(r"<script([^>]*)>([^<]*)</script>", page) == [(' src="verify.js"', ""), (' src="page.js"', "")]
    assert "script-src 'self'" in page
    assert not re.search(r"\son\w+=|href=", page)
