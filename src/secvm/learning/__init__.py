"""The mathematics: pure, no I/O, no clock, no dice of its own.

``individual/`` sees one person; ``aggregate/`` sees only counts; the linter refuses the import that would join them.
"""
