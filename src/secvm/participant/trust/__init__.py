"""How a device checks a server before and while it takes part, with what all its experiments share for that."""
