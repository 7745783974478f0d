"""The relay: knows who, not what. It moves sealed bytes and adds cover to them; nothing of one person is here."""
