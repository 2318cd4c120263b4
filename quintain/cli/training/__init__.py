"""Commands of the training library."""
