"""The addresses that a master answers, one module for each noun."""
