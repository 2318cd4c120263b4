"""Machines beside that of the master: agents, and Ray."""
