"""The mixing relay's role: it opens the outer layer, and knows neither who sent nor what is inside (§30, §31)."""
