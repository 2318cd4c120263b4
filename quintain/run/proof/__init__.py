"""Proof of runs: the facts in their receipts, steps trained again, runs built anew."""
