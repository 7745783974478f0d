"""How a device sends: the one door to the network (``transport``), and the seal around what goes through it."""
