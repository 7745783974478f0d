"""One look for everything that people look at: figures, reports and their files, and what live pages load."""
