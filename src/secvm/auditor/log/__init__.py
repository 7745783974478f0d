"""What the coordinator's log proves about an experiment: its entries, its witnesses, its salt."""
