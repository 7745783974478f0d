"""Texts of the person's page: each language has all of them, with the same values in it."""

import json
import re
from importlib.resources import files
from typing import Any

from secvm.participant.ui.view import contents
from secvm.privacy.sentences import ENGLISH, say
from secvm.protocol.evidence.plain import Kind
from secvm.protocol.plain.session_events import Reason

STATIC = files("secvm.participant.ui") / "static"
EN, DE = (json.loads((STATIC / f"texts.{language}.json").read_text()) for language in ("en", "de"))
#: Sentences that the device says in English by a key: another language has them too.
OF_THE_DEVICE = {
    **ENGLISH,
    **{f"why.{reason.name}": "{sentence}" for reason in Reason},
    **{f"evidence.{kind}": "" for kind in (*(kind.value for kind in Kind), "missing-canary")},
}


def forms(text: str | dict[str, str]) -> dict[str, str]:
    return {"": text} if isinstance(text, str) else text


def placeholders(text: str) -> set[str]:
    return set(re.findall(r"\{[^}]*\}", text))


def test_each_language_has_every_text_and_no_other() -> None:
    assert set(DE) - set(EN) == set(OF_THE_DEVICE)
    assert set(EN) <= set(DE)


def test_a_text_has_the_same_values_in_it_in_each_language() -> None:
    for key in DE:
        english: Any = EN[key] if key in EN else OF_THE_DEVICE[key]
        assert set(forms(DE[key])) == set(forms(english)), key
        for form, text in forms(DE[key]).items():
            found, wanted = placeholders(text), placeholders(forms(english)[form])
            assert found <= wanted if key.startswith("why.") else found == wanted, key


def test_every_text_of_the_page_is_asked_for_somewhere() -> None:
    pages = "".join(file.read_text() for file in STATIC.iterdir() if file.name.endswith((".js", ".html")))
    # Some keys are put together from a name: then all but its last part stands in the code.
    unasked = [
        key
        for key in EN
        if f'"{key}"' not in pages
        and f"`{key.rpartition('.')[0]}.$" not in pages
        and f"`{key.partition('.')[0]}.$" not in pages
    ]
    assert unasked == []


def test_a_sentence_is_its_english_text_and_can_be_said_by_key() -> None:
    told = say("break", who=say("together", a="Ada", b="Bea"))
    assert (
        told == "To break it, this is enough, and less is not: Ada and Bea together can link for ever who sent what,"
        " and choose the count."
    )
    (content,) = contents([told])
    assert content["key"] == "break"
    assert content["values"]["who"]["values"] == {"a": "Ada", "b": "Bea"}
    assert contents(["as it is"]) == [{"text": "as it is"}]
    assert json.loads(json.dumps(content)) == content
