import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.participant.sources import pages
from secvm.participant.sources.pages import features_of, host_of, words_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Secret Vector Machines", ["secret", "vector", "machines"]),
        ("don't: a B-52, 100% (e.g. C++)", ["don", "52", "100"]),
        ("under_score", ["under", "score"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("cafe\u0301 caf\u00e9", ["café", "café"]),
        ("हिन्दी समाचार", ["हिन्दी", "समाचार"]),
        ("ΣΊΣΥΦΟΣ σίσυφος", ["σίσυφοσ", "σίσυφοσ"]),
        ("日本語のページ", ["日本語のページ"]),
        ("x² 🎉🎉 ½", []),
        ("\u0301ab", ["ab"]),
        ("a" * 64 + " " + "a" * 65, ["a" * 64]),
        ("é" * 32 + " " + "é" * 33, ["é" * 32]),
        ("", []),
    ],
)
def test_words_of_titles(text: str, expected: list[str]) -> None:
    assert words_of(text) == [unicodedata.normalize("NFC", word) for word in expected]


@given(st.text(st.characters(max_codepoint=127)))
def test_the_quick_way_for_ascii_equals_the_general_one(text: str) -> None:
    assert words_of(text) == [word for word in pages._runs(text) if 2 <= len(word) <= 64]


@given(st.text())
def test_words_are_within_bounds_and_are_their_own_words(text: str) -> None:
    for word in words_of(text):
        assert len(word) >= 2
        assert len(word.encode()) <= 64
        assert ":" not in word
        assert words_of(word) == [word]


@given(st.text())
def test_words_do_not_depend_on_the_form_of_the_text(text: str) -> None:
    assert words_of(unicodedata.normalize("NFD", text)) == words_of(unicodedata.normalize("NFC", text))


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://www.Example.org/a?b#c", "example.org"),
        ("http://example.org:80/", "example.org"),
        ("https://example.org:443/", "example.org"),
        ("http://example.org:443/", "example.org:443"),
        ("https://example.org:8443/", "example.org:8443"),
        ("https://user:word@example.org./", "example.org"),
        ("https://www.www.example.org/", "www.example.org"),
        ("https://www.com/", "www.com"),
        ("https://xn--bcher-kva.example/", "xn--bcher-kva.example"),
        ("https://1.1.1.1/", "1.1.1.1"),
        ("https://[2606:4700:4700::1111]:8443/", "[2606:4700:4700::1111]:8443"),
        # not browsing
        ("about:config", None),
        ("file:///home/somebody/letter.html", None),
        ("chrome://settings/", None),
        ("moz-extension://0a1b/page.html", None),
        ("chrome-extension://abc/page.html", None),
        ("data:text/html,hi", None),
        ("ftp://example.org/", None),
        # this device, private networks
        ("http://localhost:8080/", None),
        ("http://a.localhost/", None),
        ("http://127.0.0.1/", None),
        ("http://[::1]/", None),
        ("http://192.168.1.1/", None),
        ("http://10.0.0.7:631/", None),
        ("http://169.254.1.1/", None),
        ("http://[fe80::1]/", None),
        ("http://[fd00::1]/", None),
        ("http://router/", None),
        ("http://printer.local/", None),
        ("http://wiki.corp/", None),
        ("http://nas.home.arpa/", None),
        # no addresses at all
        ("http://", None),
        ("https://exa mple.org/", None),
        ("http://[broken/", None),
        ("http://example.org:99999/", None),
        ("nonsense", None),
    ],
)
def test_hosts_of_pages(url: str, host: str | None) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize(
    ("url", "host"), [("http://127.0.0.1:8080/", "127.0.0.1:8080"), ("http://router/", "router"), ("file:///a", None)]
)
def test_local_pages_count_where_they_are_asked_for(url: str, host: str | None) -> None:
    assert host_of(url, local=True) == host


@given(st.text())
def test_any_text_is_a_host_or_none(text: str) -> None:
    for url in (text, f"http://{text}", f"https://{text}/"):
        host = host_of(url, local=True)
        assert host is None or host == host.lower()


def test_features_count_pages_not_visits_or_repeated_words() -> None:
    pages = [
        ("https://example.org/1", "Quokka, quokka! A photo"),
        ("https://www.example.org/2", "quokka"),
        ("https://other.example/", None),
        ("http://localhost/", "secret draft"),
    ]
    hosts = {"host:example.org": 2, "host:other.example": 1}
    titles = {"quokka": 2, "photo": 1}
    assert features_of(pages, titles=True, hosts=True, local=False) == hosts | titles
    assert features_of(pages, titles=True, hosts=False, local=False) == titles
    assert features_of(pages, titles=False, hosts=True, local=False) == hosts
