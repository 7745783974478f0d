"""What travels between the parties, and what each may believe. Pure: bytes, time and dice come in as arguments.

- ``codec``: packages, one fixed size for every kind. ``problems``: what a server answers to what it cannot take.
- ``experiment_document.ExperimentDocument``, ``manifest.RoundManifest``: the published documents, canonical bytes
  (``documents``), and the ``blobs`` they name by digest.
- ``log``: what of it stands in a public log; ``checkpoints``, ``log_proofs``, ``tiles``: that log's formats (C2SP).
- ``schedule``: when each package is sent. ``session.ParticipantSession``: a device's part, events in, actions out.
- ``round_state``: the life of a round, as a table.

Instants are integer **milliseconds** since 1970-01-01 UTC. Whole seconds would let devices everywhere send at the same
ticks; finer time nobody needs, and a millisecond count is exact in every language's numbers.
"""
