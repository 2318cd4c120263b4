"""Commands that operate the platform."""
