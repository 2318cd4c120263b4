"""Training data: sources, order, and position."""
