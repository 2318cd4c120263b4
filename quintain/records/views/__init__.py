"""Tables and filters over records."""
