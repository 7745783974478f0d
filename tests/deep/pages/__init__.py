"""A package, unlike its neighbours, so that one federation can serve all modules here and be gone after the last."""
