"""The relay: knows who, not what. It moves sealed bytes, and imports nothing of learning or protocol."""
