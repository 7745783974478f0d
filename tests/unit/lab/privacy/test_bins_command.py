"""``secvm privacy`` as it is typed."""

import json
import shlex

import pytest

from secvm.cli.main import run

PAPER = shlex.split("privacy bins --features 95880008 --bins 95880 --sensitive 1")


def test_json_has_decimal_logarithms_under_stable_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*PAPER, "--min-load", "700", "--format", "json"]) == 0
    content = json.loads(capsys.readouterr().out)
    expected = {
        "p1_log10": (4.841, -427),
        "p1_log10_exact": (4.841, -427),
        "p2_log10": (5.049, -435),
        "p2_log10_exact": (5.049, -435),
        "one_minus_p3_log10": (4.671, -19),
        "one_minus_p3_log10_exact": (4.636, -19),
    }
    for key, (mantissa, exponent) in expected.items():
        assert round(10 ** (content[key] - exponent), 3) == mantissa
        assert content[key.removesuffix("_exact") + "_low"] <= content[key]
    assert content["posterior"] == pytest.approx(0.605, abs=1e-3)


def test_people_read_what_it_means(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*PAPER, "--min-load", "700"]) == 0
    said = capsys.readouterr().out
    assert "some feature shares its bin with fewer than 699 others" in said
    assert "4.636e-19" in said
    assert "is not hiding in traffic" in said
    assert "says nothing" not in said


def test_a_bound_above_one_is_said_to_say_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*PAPER, "--min-load", "900"]) == 0
    assert "A bound of one or more says nothing." in capsys.readouterr().out


def test_the_logarithm_of_zero_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(shlex.split("privacy bins --features 5 --bins 1 --format json")) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["p1_log10_exact"] is None
    assert content["p1_log10"] is None


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--features 0 --bins 5", "the number of features must lie between 1 and 10^18, not 0"),
        ("--features 5 --bins -1", "the number of bins must lie between 1 and 10^18, not -1"),
        ("--features 5 --bins 5 --sensitive 6", "more sensitive features than features"),
        ("--features 5 --bins 5 --min-load 0", "the smallest load must lie"),
        ("--features 5 --bins 5 --exponent 11", "the exponent of Zipf's law"),
    ],
)
def test_bad_input_is_one_sentence(arguments: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["privacy", "bins", *shlex.split(arguments)]) == 2
    said = capsys.readouterr()
    assert sentence in said.err
    assert said.out == ""
