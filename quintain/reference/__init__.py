"""Paths of the Model Garden and PEDL, and the modules behind them."""
