"""One run of an experiment: from its config to the record of it."""
