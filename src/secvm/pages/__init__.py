"""One look for every report of the lab: figures, pages and the files they are written to."""
