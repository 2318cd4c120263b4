"""Action that runs only under a condition."""

from collections.abc import Callable, Sequence
from typing import Any

Condition = Callable[[Any], Any]
"""Takes the output and returns whether to act."""


class ConditionalAction:
    """Runs an action, or several in order, if a condition holds for the output.

    Example:
        >>> action = ConditionalAction(lambda output: output["loss"] < 1.0, print)
        >>> action({"loss": 2.0})
        >>> action({"loss": 0.5})
        {'loss': 0.5}
    """

    def __init__(
        self,
        condition: Condition,
        action: Callable[[Any], Any] | Sequence[Callable[[Any], Any]],
    ) -> None:
        """Stores the condition and the action.

        Args:
            condition: Takes the output and returns whether to act. Tensors count by their value.
            action: What to do with the output: one callable or a sequence of them.
        """
        self.condition = condition
        self.action = (action,) if callable(action) else tuple(action)

    def __call__(self, output: Any) -> None:
        """Runs the action if the condition holds."""
        if self.condition(output):
            for action in self.action:
                action(output)
