"""HTTP middleware: limits, and checks of requests."""
