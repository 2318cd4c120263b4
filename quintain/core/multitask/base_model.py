"""`MultiTaskBaseModel`: the models of several tasks, which share layers."""

from collections.abc import Iterable
from typing import Any

import keras
import tensorflow as tf


class MultiTaskBaseModel(tf.Module):
    """Holds one Keras model for every task.

    A subclass creates the layers that the tasks share, then calls `super().__init__()`, which calls
    `_instantiate_sub_tasks`. The sub-models share whatever layers they are given.

    Example:
        >>> class Model(MultiTaskBaseModel):
        ...     def __init__(self):
        ...         self._shared = keras.layers.Dense(4)
        ...         super().__init__()
        ...
        ...     def _instantiate_sub_tasks(self):
        ...         return {
        ...             name: keras.Sequential([keras.Input((3,)), self._shared, head])
        ...             for name, head in [
        ...                 ("a", keras.layers.Dense(1)),
        ...                 ("b", keras.layers.Dense(2)),
        ...             ]
        ...         }
        >>> model = Model()
        >>> sorted(model.sub_tasks), len(model.trainable_variables)
        (['a', 'b'], 6)
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._sub_tasks = self._instantiate_sub_tasks()

    def _instantiate_sub_tasks(self) -> dict[str, keras.Model]:
        """Creates the sub-models; to be overridden.

        Returns:
            Mapping from the name of each task to its model.
        """
        raise NotImplementedError(f"{type(self).__name__}._instantiate_sub_tasks")

    @property
    def sub_tasks(self) -> dict[str, keras.Model]:
        """The model of each task, by the task's name."""
        return self._sub_tasks

    @property
    def trainable_variables(self) -> tuple[keras.Variable, ...]:
        """The distinct trainable variables of all sub-models, in a fixed order."""
        return _distinct(v for model in self.sub_tasks.values() for v in model.trainable_variables)

    @property
    def non_trainable_variables(self) -> tuple[keras.Variable, ...]:
        """The distinct variables of all sub-models that training does not change by gradients."""
        return _distinct(
            v for model in self.sub_tasks.values() for v in model.non_trainable_variables
        )

    @property
    def variables(self) -> tuple[keras.Variable, ...]:
        """The distinct variables of all sub-models, in a fixed order."""
        return _distinct(v for model in self.sub_tasks.values() for v in model.variables)

    @property
    def built(self) -> bool:
        """True if all sub-models have their variables."""
        return all(model.built for model in self.sub_tasks.values())

    def initialize(self) -> None:
        """Gives a new run its initial weights, such as those of a pretrained checkpoint.

        Called when the model directory holds no checkpoint. Does nothing unless overridden.
        """

    def build(self) -> None:
        """Creates the variables of the sub-models that have none, from their `inputs`.

        A sub-model without `inputs` is left alone; the trainer builds it from the first batch.
        """
        for model in self.sub_tasks.values():
            inputs = getattr(model, "inputs", None)
            if not model.built and inputs is not None:
                model(inputs)

    def _flatten_layers(self) -> list[keras.Layer]:
        """Returns all layers, for those who look for random states; Keras models have it, too."""
        return [layer for model in self.sub_tasks.values() for layer in model._flatten_layers()]


def get_sub_model(model: keras.Model | MultiTaskBaseModel, task_name: str) -> keras.Model:
    """Returns the model of one task: its sub-model, or the one model that all tasks share."""
    return model.sub_tasks[task_name] if isinstance(model, MultiTaskBaseModel) else model


def _distinct(variables: Iterable[keras.Variable]) -> tuple[keras.Variable, ...]:
    return tuple({id(variable): variable for variable in variables}.values())
