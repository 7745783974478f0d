"""What a person agrees to have told about them, and the ledger of what was told."""
