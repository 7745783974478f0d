"""The cover that both relays add: commitments before a round, the parts, and the reveals that open one of them."""
