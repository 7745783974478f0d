"""The accountant: what cover is worth to one person, as (ε, δ) that are never too small."""
