"""Conformance suites that implementations of the package's interfaces have to pass."""
