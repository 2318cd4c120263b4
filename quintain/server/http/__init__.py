"""HTTP server of the master: listening, answers, static files."""
