"""Lists of logs, as c2sp.org/tlog-list writes them: what is read, what is passed over, what is refused."""

import pytest

from secvm.crypto.notes import NoteKey, SignatureKind
from secvm.errors import BadInputError
from secvm.witness.decision import KnownLog
from secvm.witness.settings import read_log_list
from tests.unit.witness.worlds import LOG, OTHER

ONE, TWO = NoteKey("one.example/log", LOG.public), NoteKey("two.example", OTHER.public)
GOOD = f"""\
#
# List: a few logs
  logs/v0

# the first
vkey {ONE.to_text()}
qpd 86400
contact somebody (at) one.example

\tvkey {TWO.to_text()}
\torigin a log of another name
 qpd 1\t
contact https://two.example
"""


def test_logs_are_known_by_origin_and_key() -> None:
    assert read_log_list(GOOD.encode()) == [KnownLog("one.example/log", ONE), KnownLog("a log of another name", TWO)]
    assert read_log_list(b"logs/v0\n") == []


@pytest.mark.parametrize(
    "vkey",
    [
        # Of a kind that is not known here, as a post-quantum one is.
        "three.example+00000000+" + "BgAA" * 438,
        NoteKey("three.example", LOG.public, SignatureKind.COSIGNATURE).to_text(),
    ],
)
def test_a_log_with_a_key_of_another_kind_is_passed_over(vkey: str) -> None:
    more = f"vkey {vkey}\nqpd 1\ncontact x\n"
    assert len(read_log_list((GOOD + more).encode())) == 2


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("logs/v0", "logs/v1", "begins with logs/v0"),
        ("  logs/v0\n", "", "begins with logs/v0"),
        ("qpd 86400", "qpd 086400", "qpd is a number"),
        ("qpd 86400", "qpd 0", "qpd is a number"),
        ("qpd 86400", "qpd 2147483648", "qpd is a number"),
        ("qpd 86400\n", "", "line 6"),
        ("contact somebody (at) one.example\n", "", "line 6"),
        ("origin a log of another name", "origin one.example/log", "two logs of the list have one origin"),
        ("qpd 86400\ncontact", "contact", "of the list has vkey"),
        ("contact https://two.example\n", "", "of the list has vkey"),
        ("contact https://two.example\n", "contact\n", "of the list has vkey"),
        ("\torigin a log of another name\n qpd 1\t\n", "\tqpd 1\norigin x\n", "of the list has vkey"),
        ("contact https://two.example\n", "contact x\nqpd 1\n", "of the list has vkey"),
    ],
)
def test_what_is_no_list_is_refused_in_one_sentence(old: str, new: str, sentence: str) -> None:
    assert GOOD.count(old) == 1
    with pytest.raises(BadInputError, match=sentence):
        read_log_list(GOOD.replace(old, new).encode())
    with pytest.raises(BadInputError, match="is UTF-8"):
        read_log_list(GOOD.encode() + b"\xff")
