"""The HTTP server of a master, and the process it lives in."""
