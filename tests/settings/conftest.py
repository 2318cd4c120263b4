"""Fixtures of the line task."""

from tests.line_task import line_params, line_task_is_registered

__all__ = ["line_params", "line_task_is_registered"]
