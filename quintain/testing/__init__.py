"""Suites of tests that implementations of the package's parts have to pass."""
