"""Modules of `orbit.utils`."""
