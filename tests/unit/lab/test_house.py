"""What ``secvm dev house`` counts."""

from pathlib import Path

from secvm_lab.house import LIMITS, Module, as_text, code_lines, house, modules_of, places

TEXT = '''"""A module.

Of two sentences.
"""

# A comment.
import sqlite3


def open_it(told: int, epsilon: float = 1.0, *, delta: str = "1e-6", rounds: int | None = None) -> None:
    """Opens."""
    sqlite3.connect(
        "pegasos",
    )


class Loss:
    """A loss."""

    rounds: int = 20
'''


def test_code_lines_have_neither_comments_nor_docstrings() -> None:
    assert code_lines(TEXT) == 7
    assert code_lines("") == 0
    assert code_lines('x = """not\na docstring"""\n') == 2


def test_each_way_is_counted_in_the_product_alone() -> None:
    modules = [
        Module("src/secvm/a/one.py", TEXT),
        Module("src/secvm/a/two.py", "class Loss:\n    pass\n\n\nclass _Loss:\n    pass\n"),
        Module("lab/secvm_lab/three.py", TEXT),
        Module("tests/four.py", TEXT + "ClientSession()\n"),
    ]
    found = house(modules)
    assert found["product_lines"] == 11
    assert (found["product_modules"], found["lab_lines"], found["all_lines"]) == (2, 7, 26)
    assert (found["widest_folder"], found["http_clients"], found["sqlite_openings"]) == (2, 0, 1)
    assert [found[f"defaults_of_{name}"] for name in ("epsilon", "delta", "rounds")] == [1, 1, 1]
    assert (found["files_that_quote_a_rule"], found["duplicate_class_names"]) == (1, 1)
    assert (found["lab_modules"], found["widest_folder_of_lab"], found["pronouns_as_names"]) == (1, 1, 1)
    where = places(modules)
    assert where["pronouns_as_names"] == ["src/secvm/a/one.py:10 told"]
    assert where["sqlite_openings"] == ["src/secvm/a/one.py"]
    assert where["duplicate_class_names"] == ["Loss: src/secvm/a/one.py, src/secvm/a/two.py"]
    assert where["defaults_of_rounds"] == ["src/secvm/a/one.py:20"]


def test_the_table_says_what_is_over_its_limit(repository: Path) -> None:
    # A twentieth of the tree: all of it takes a quarter of a minute.
    modules = modules_of(repository)
    assert len(modules) > 1000
    found = house(modules[::20])
    assert found.keys() >= LIMITS.keys()
    text = as_text({**found, "http_clients": 2, "sqlite_openings": 1}, None)
    assert [line.split()[-1] for line in text.splitlines() if line.startswith(("http", "sqlite"))] == ["over", "1"]
    assert "run ./secvm test first" in text
    assert "3.2 s, a test" in as_text(found, {"seconds": 3.21, "test": "a test"})
