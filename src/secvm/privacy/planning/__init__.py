"""Planning: which cover, rounds and settings keep an (ε, δ) that somebody asks for, and what they cost."""
