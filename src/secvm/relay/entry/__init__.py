"""The entry relay's role: it knows who sends, and cannot open what is sent (docs/protocol.md §28 to §31)."""
