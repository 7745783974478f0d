"""All targets, and the decoders that have none of their own, each with its reason.

``tests/fuzz`` walks the source: a public function or method that is named like a decoder (``DECODER``) stands in one of
the two lists, or the test fails. So whoever writes a decoder adds a target here.
"""

from __future__ import annotations

from secvm.testing.fuzz import document_targets, file_targets, log_targets, party_targets, sealing_targets
from secvm.testing.fuzz.target import Target

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (sealing_targets, document_targets, log_targets, party_targets, file_targets)
    for target in module.TARGETS
}

#: How decoders are named.
DECODER = (
    r"from_(bytes|text|line|lines|path|payload|parts|fields|json|header|row)"
    r"|decode|decode_\w+|read|read_\w+|unpack|unpack_\w+|parse|parse_\w+|load|load_\w+|open|open_\w+"
    r"|\w+_from_(json|svmlight|bytes|text)|split_content|verify|verify_\w+|receive|look"
)

#: Why a function of such a name is not fuzzed by itself.
EXEMPT: dict[str, str] = {}
