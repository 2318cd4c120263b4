"""Agents: processes that run trials on other machines."""
