"""Talks to a running master over HTTP."""
