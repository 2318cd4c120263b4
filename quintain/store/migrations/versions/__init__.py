"""Schema revisions, a file for each."""
