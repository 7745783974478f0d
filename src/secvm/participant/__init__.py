"""The participant: a person's device. Vault, sources, state, sender; everything secret stays in this folder."""
