"""Search methods for hyperparameters: pure and deterministic.

A method is told what happened to its trials and answers with operations. It knows neither machines
nor clocks, so that a search can be simulated, tested and replayed.
"""
