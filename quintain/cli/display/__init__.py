"""Live displays of running work."""
