"""The grammar that makes the bundled corpus of numbers and dates."""
