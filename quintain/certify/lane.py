"""Process of one of two models that are compared; it answers calls over a socket.

An older model runs on Keras 2 or on graphs, its port on Keras 3, of which a process has one only.
"""

import importlib
import importlib.util
import os
import pathlib
import sys
import types
from multiprocessing import connection
from typing import Any, Final

from quintain.process import start_up, user_errors

with start_up.quiet_imports():
    import tensorflow as tf

from quintain.certify import dropout_switch, graph_model, keras_model

_KERAS_2: Final = "tf_keras"


def main() -> None:
    """Answers calls of methods until the other side closes."""
    calls = connection.Connection(int(sys.argv[1]))
    os.dup2(2, 1)  # What the user's code prints is no answer.
    tf.get_logger().setLevel("ERROR")
    lane = _Lane()
    while True:
        try:
            name, arguments = calls.recv()
        except EOFError:
            return
        try:
            method = getattr(lane if hasattr(lane, name) else lane.model, name)
            calls.send((True, method(*arguments)))
        except Exception as error:  # noqa: BLE001 - the border of the process
            calls.send((False, "\n".join(user_errors.explain(error).lines)))


class _Lane:
    """The user's file, and the model that it builds."""

    model: Any = None
    _estimators: Any = None

    def prepare(self, kind: str) -> None:
        """Sets the process up for a kind of code."""
        dropout_switch.install()
        if kind == "graph":
            from quintain.trials.older import estimator_compat  # noqa: PLC0415 - needs Keras 2

            self._estimators = estimator_compat.load()
        elif kind == "keras2":
            _name_keras_2()

    def load(self, path: str, function: str) -> None:
        """Imports the file."""
        self._module = _import(path)
        self._function = getattr(self._module, function)

    def open(self, batches: Any) -> None:
        """Builds the model; its shapes are those of the batches."""
        if self._estimators is not None:
            self.model = graph_model.GraphModel(self._function, self._estimators, batches)
        else:
            keras = importlib.import_module("keras")
            self.model = keras_model.KerasModel(self._function, keras, batches)

    def batches(self) -> list[Any] | None:
        """Returns the batches of the file's function `batches`; None if it has none."""
        function = getattr(self._module, "batches", None)
        return None if function is None else [keras_model.to_arrays(each) for each in function()]


def _import(path: str) -> types.ModuleType:
    name = pathlib.Path(path).stem
    sys.path.insert(0, str(pathlib.Path(path).parent))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, f"{path} is no Python file"
    assert spec.loader is not None, f"{path} is no Python file"
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _name_keras_2() -> None:
    """Lets `import keras` mean Keras 2, as it did when the code was written."""
    for name in [each for each in sys.modules if each.partition(".")[0] == "keras"]:
        del sys.modules[name]
    sys.modules["keras"] = importlib.import_module(_KERAS_2)


if __name__ == "__main__":
    main()
