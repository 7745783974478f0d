import pytest

from secvm.cli.main import run


def test_pages_that_are_not_there_are_told_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dev", "screenshots", "--only", "nobody"]) == 2
    said = capsys.readouterr().err
    assert "there are no pages of 'nobody'" in said
    assert "operator" in said


def test_a_folder_for_pictures_that_is_none_is_told_before_anything_starts(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dev", "screenshots", "--pictures", "/nowhere/at/all", "--only", "person"]) == 2
    assert "/nowhere/at/all is no folder" in capsys.readouterr().err
