"""Calls and results of trial processes."""
