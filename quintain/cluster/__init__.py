"""Machines beside that of the master: agents that start processes on them, and Ray."""
