"""Longer cases of ``tests/unit/protocol/test_evidence.py``."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.errors import RemoteProtocolError
from secvm.protocol.evidence.plain import Evidence, Kind, examine
from tests.unit.protocol.test_evidence import honest, parts


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_no_parts_of_honest_histories_convict_however_they_are_put_together(data: st.DataObject) -> None:
    documents, checkpoints, blobs, entries = parts()
    kind = data.draw(st.sampled_from(list(Kind)))
    count = {
        Kind.TWO_DOCUMENTS: (2, 2),
        Kind.BAD_DOCUMENT: (1, 2),
        Kind.WRONG_STEP: (1, 2),
        Kind.WRONG_COUNTS: (1, 2),
        Kind.FORKED_LOG: (0, 0),
        Kind.NOT_IN_LOG: (1, 1),
        Kind.TWO_ENTRIES: (0, 0),
    }[kind]
    some = data.draw(st.lists(st.sampled_from(documents), min_size=count[0], max_size=count[1]))
    notes = 2 if kind is Kind.FORKED_LOG else 0
    lines = {Kind.NOT_IN_LOG: 1, Kind.TWO_ENTRIES: 2}.get(kind, 0)
    pieces = {Kind.WRONG_COUNTS: 1, Kind.WRONG_STEP: 2 if len(some) == 2 else 0}.get(kind, 0)
    evidence = Evidence(
        kind=kind,
        experiment=data.draw(st.sampled_from(honest())).envelope,
        documents=tuple(some),
        checkpoints=tuple(data.draw(st.lists(st.sampled_from(checkpoints), min_size=notes, max_size=notes))),
        blobs=tuple(data.draw(st.lists(st.sampled_from(blobs), min_size=pieces, max_size=pieces))),
        entries=tuple(data.draw(st.lists(st.sampled_from(entries), min_size=lines, max_size=lines))),
    )
    with pytest.raises(RemoteProtocolError):
        examine(evidence.to_bytes())
