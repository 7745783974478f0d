"""What travels between the parties, and what each may believe. Pure: bytes, time and dice come in as arguments.

- ``canonical``: the one way to write a document. ``codec``: packages as bytes. ``problems``: what servers answer.
- ``log``: the public log of all that a coordinator publishes, in the formats of C2SP.
- ``documents``: what stands in it: experiment, manifests, endings, and the tallies and models that they name.
- ``plain``: rounds in which a device sends single packages. ``relays``: rounds with two relays that add cover.
- ``evidence``: files that convict whoever signed them. ``trust``: what a device believes of what it is served.

Instants are integer **milliseconds** since 1970-01-01 UTC. Whole seconds would let devices everywhere send at the same
ticks; finer time nobody needs, and a millisecond count is exact in every language's numbers.
"""
