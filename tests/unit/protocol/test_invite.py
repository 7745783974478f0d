"""An invite is one line: what is written comes back, and anything else is one sentence."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadInputError, LocalProtocolError
from secvm.protocol.invite import Invite
from secvm_lab.rigs.histories.relayed_rounds import relayed_document
from tests.unit.protocol.helpers import document

DIGEST = "3fa9" * 16
LINE = f"secvm:https://relay.example/relay#{DIGEST}"
HOSTS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?(\.[a-z]{2,5})?(:[1-9][0-9]{0,3})?", fullmatch=True)
PATHS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=80)


@given(scheme=st.sampled_from(["http", "https"]), host=HOSTS, path=PATHS, digest=st.binary(min_size=32, max_size=32))
def test_invite_comes_back_from_its_line(scheme: str, host: str, path: str, digest: bytes) -> None:
    invite = Invite(f"{scheme}://{host}/{path}", digest.hex())
    assert Invite.from_text(invite.to_text()) == invite
    assert Invite.from_text(f"\n {invite.to_text()}\r\n") == invite


@pytest.mark.parametrize(
    "text",
    [
        "",
        DIGEST,
        LINE.removeprefix("secvm:"),
        LINE[:-1],
        LINE + "0",
        LINE.upper(),
        LINE.replace("https", "ftp"),
        LINE.replace("relay.example", "me:secret@relay.example"),
        LINE.replace("//relay.example", "//"),
        LINE.replace(".example", ".example:99999"),
        LINE.replace("/relay#", "/re lay#"),
        LINE.replace("relay", "r\u202eelay", 1),
        f"{LINE}\n{LINE}",
        LINE.replace("/relay#", f"/{'r' * 600}#"),
    ],
)
def test_anything_else_is_no_invite(text: str) -> None:
    with pytest.raises(BadInputError, match="this is no invite") as caught:
        Invite.from_text(text)
    assert "secret" not in str(caught.value)


def test_invite_names_the_relay_that_takes_packages_in() -> None:
    of = relayed_document()
    assert Invite.of(of) == ("https://entry.example/", of.digest)
    assert Invite.of(document()).relay_url == document().relays[0].url
    with pytest.raises(LocalProtocolError, match="names no relay"):
        Invite.of(replace(document(), relays=(), test=True))
