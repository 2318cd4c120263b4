"""Checks and measurements of a task's step."""
