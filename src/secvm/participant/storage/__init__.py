"""What a device keeps on its disk: the vault of features, its state with all its tables, and the lock over both."""
