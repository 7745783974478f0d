"""The simulated machines: lives that end anywhere, disks, databases, clocks, the network and the event loop."""
