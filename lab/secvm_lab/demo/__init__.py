"""The demonstration: a whole federation on one machine, and a page that tells what happened."""
