"""The vectors of visited pages."""

from secvm.participant.sources.pages import as_excluded, features_of, host_of, words_of
from tests.contract.vectors.reading import JSON


def check_pages(content: JSON) -> None:
    for case in content["words"]:
        assert words_of(case["text"]) == case["words"]
    for case in content["hosts"]:
        assert host_of(case["url"]) == case["public"]
        assert host_of(case["url"], local=True) == case["local"]
    for case in content["excluded"]:
        assert as_excluded(case["text"]) == case["as"]
    pages = [(url, title) for url, title in content["pages"]]
    for case in content["features"]:
        wanted = {name: case[name] for name in ("titles", "hosts", "local")}
        assert features_of(pages, **wanted, excluded=set(case["excluded"])) == case["features"]
