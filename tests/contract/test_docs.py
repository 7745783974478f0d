"""The documents keep their word: links lead somewhere, examples run and print what they say, decisions are listed."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from secvm.cli.main import run
from secvm.learning.aggregate.descent import RULES
from secvm.learning.declared import Declared
from secvm.learning.experiment import Robust
from secvm.learning.losses import LOSSES
from secvm.learning.thinning import Thinning
from secvm.privacy.target import PrivacyTarget
from secvm_lab.cli.dev.maintenance import reference
from tests.programs import ROOT, python

DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/*.md"),
        *ROOT.glob("deploy/*.md"),
        *ROOT.glob("vectors/*.md"),
    ]
)
RECIPES = [
    ROOT / name
    for name in (
        "docs/learning.md",
        "docs/privacy.md",
        "docs/how-to/audit-an-experiment.md",
        "docs/how-to/train-offline.md",
        "docs/tutorial.md",
        "examples/README.md",
    )
]
WITH_PYTHON = [
    ROOT / name
    for name in (
        "README.md",
        "docs/guarantees.md",
        "docs/how-to/federation-in-python.md",
        "docs/how-to/train-offline.md",
        "docs/how-to/use-your-browser-history.md",
    )
]

#: What a person's own shell does between our commands; anything else in a recipe needs a reason to be here.
SHELL_TOOLS = {"awk", "head", "tail", "printf", "python3"}
#: Our commands that are not run here: the launcher's, the developers', and what tests/system/test_demo.py runs.
NOT_RUN = {"test", "dev", "bench", "demo"}


def name(document: Path) -> str:
    return str(document.relative_to(ROOT))


def without_code(text: str) -> str:
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(text: str) -> set[str]:
    """The anchors that a forge makes of headings: lower case, punctuation dropped, spaces to hyphens."""
    headings = re.findall(
        r"^#+ +(.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def blocks(document: Path, language: str) -> list[str]:
    text = document.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like the root of a clone to an example, and takes what it writes."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_relative_links_resolve(document: Path) -> None:
    text = without_code(document.read_text(encoding="utf-8"))
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        there = file.exists() and file.is_relative_to(ROOT)
        if not there or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("document", RECIPES, ids=name)
def test_commands_run(document: Path, clone: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ran = 0
    for line in "".join(blocks(document, "sh")).splitlines():
        first, *arguments = shlex.split(line, comments=True) or [""]
        if first == "./secvm" and arguments[0] not in NOT_RUN:
            assert run(arguments) == 0, f"{line}\n{capfd.readouterr().err}"
            ran += 1
        elif first in SHELL_TOOLS:
            subprocess.run(["bash", "-c", line], cwd=clone, check=True)
        else:
            assert not first or first == "./secvm", f"nobody knows how to test: {line}"
    assert ran


def test_tutorial_shows_what_its_command_prints(clone: Path, capfd: pytest.CaptureFixture[str]) -> None:
    page = ROOT / "docs/tutorial.md"
    command = next(block for block in blocks(page, "sh") if block.startswith("./secvm train"))
    assert run(shlex.split(command)[1:]) == 0
    # What follows is the file's name, the time it took and the memory.
    assert capfd.readouterr().out.startswith(blocks(page, "text")[0])
    assert (clone / "model.secvm").is_file()


def test_privacy_page_shows_what_its_command_prints(capfd: pytest.CaptureFixture[str]) -> None:
    page = ROOT / "docs/privacy.md"
    command = next(block for block in blocks(page, "sh") if block.startswith("./secvm privacy bins"))
    assert run(shlex.split(command)[1:]) == 0
    assert capfd.readouterr().out == blocks(page, "text")[0]


@pytest.mark.parametrize("document", WITH_PYTHON, ids=name)
def test_python_examples_run_and_print_what_they_say(document: Path, clone: Path) -> None:
    program = "\n".join(blocks(document, "python"))
    told = python("-c", program, folders=("src", "lab"), cwd=clone)
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines() == re.findall(r"# → (.*)$", program, re.MULTILINE)


def test_every_decision_is_in_the_index_with_status_and_date() -> None:
    folder = ROOT / "docs/adr"
    index = (folder / "README.md").read_text(encoding="utf-8")
    row = r"^\| \[(\d{4})\]\(([^)]+)\) \| (.+) \| (accepted|accepted, in part superseded|superseded) \| ([\d-]+) \|$"
    listed = re.findall(row, index, re.MULTILINE)
    assert [file for _, file, *_ in listed] == sorted(file.name for file in folder.glob("[0-9]*.md"))
    for number, file, title, status, date in listed:
        text = (folder / file).read_text(encoding="utf-8")
        assert file.startswith(f"{number}-")
        assert text.startswith(f"# {int(number)}. {title}\n\n**Status:** ")
        said = text.split("\n\n")[1]
        assert said.startswith(f"**Status:** {'decided' if status == 'superseded' else 'accepted'} {date}")
        assert ("superseded by" in " ".join(said.split())) == (status != "accepted")
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Options", "Choice", "Consequences"]


def test_threat_model_names_tests_that_exist() -> None:
    text = (ROOT / "docs/threat-model.md").read_text(encoding="utf-8")
    files = {file.name: file for file in (ROOT / "tests").rglob("*.py")}
    named = set(re.findall(r"`([a-z_/]+\.py)`", text))
    assert named
    assert {one for one in named if not ((ROOT / "tests" / one).is_file() or one in files)} == set()


@pytest.mark.parametrize(("letter", "count"), [("F", 12), ("R", 18)])
def test_every_fault_and_every_rule_has_its_tests(letter: str, count: int) -> None:
    """F: faults that the review of version 1 found; R: rules of rounds with two relays. Each names functions."""
    text = (ROOT / "docs/threat-model.md").read_text(encoding="utf-8")
    paragraph = rf"^\*\*({letter}\d+)\.\*\* .+? \*Tests:\* (.+?)\.$"
    rows = [found.groups() for part in text.split("\n\n") if (found := re.match(paragraph, " ".join(part.split())))]
    assert [name for name, _ in rows] == [f"{letter}{number}" for number in range(1, count + 1)]
    for row, tests in rows:
        named = re.findall(r"`([a-z_/]+\.py)::(test_\w+)`", tests)
        assert named, f"{row} names no test"
        assert len(named) == tests.count("`") / 2, f"{row} names something that is no test"
        for file, function in named:
            text_of_tests = (ROOT / "tests" / file).read_text(encoding="utf-8")
            assert re.search(rf"^(async )?def {function}\(", text_of_tests, re.MULTILINE), f"{row}: {function}"


def test_guarantees_say_what_is_not_promised() -> None:
    text = (ROOT / "docs/guarantees.md").read_text(encoding="utf-8").partition("\n## Neither\n")[2]
    text = " ".join(text.split())
    for words in (
        "whoever keeps a capsule's secrets can show it",
        "put free bytes into public capsules",
        "any one party can stop the show",
        "clients are people",
    ):
        assert words in text


@pytest.mark.parametrize("picture", ["walk", "round"])
def test_picture_is_what_its_program_draws(picture: str) -> None:
    program = f"import draw_{picture}; print(draw_{picture}.draw(), end='')"
    drawn = python("-B", "-c", program, folders=("src", "docs/pictures"), check=True).stdout
    assert drawn == (ROOT / f"docs/pictures/{picture}.svg").read_text(encoding="utf-8")


def test_example_people_are_what_their_program_makes() -> None:
    made = python(ROOT / "examples/make_people.py", check=True).stdout
    assert made == (ROOT / "examples/people.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.toml")), ids=name)
def test_repro_every_example_is_planned_as_it_lies_here(example: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Without a coordinator and without a key: whoever has a clone can look what a guarantee takes."""
    assert run(["experiment", "new", str(example), "--plan-only"]) == 0, capfd.readouterr().err
    plan, _, told = capfd.readouterr().out.partition("\n\n")
    assert told.splitlines()[-1] == "devices: a device with default consent joins, if its settings name both relays"
    assert plan + "\n" in blocks(ROOT / "docs/how-to/run-an-experiment.md", "text")


def test_reference_of_settings_is_what_the_parts_declare() -> None:
    assert (ROOT / "docs/reference/experiment.md").read_text(encoding="utf-8") == reference(), "run ./secvm dev fix"


def test_reference_has_every_setting_of_every_part() -> None:
    text = reference()
    parts: list[type[Declared]] = [PrivacyTarget, Robust, Thinning, *RULES.built_in.values()]
    for part in parts:
        for setting in part.settings():
            assert f"| `{setting.name}` |" in text
            assert setting.sentence in text
    assert all(f"| `{name}` |" in text for name in LOSSES.built_in)
