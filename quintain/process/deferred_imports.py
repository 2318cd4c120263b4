"""Puts off parts of TensorFlow and Keras that few programs use until somebody does.

Importing TensorFlow imports all that it offers, each in a module of its own: TensorFlow Lite, the
names of its first version, its feature columns with a whole Keras of their own; Keras imports what
draws pictures and what wraps its models for scikit-learn, and with them matplotlib, pandas and
SciPy. A part that is put off is there from the start, and runs when something in it is first asked
for. Only those are listed here that nothing finds by a registry, without asking for them by name:
gradients, and what revives the objects of SavedModels, are all there from the start.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
import threading
import types
from collections.abc import Sequence
from typing import Any, Final

_TENSORFLOW: Final = "tensorflow._api.v2"
_VERSIONS: Final = (f"{_TENSORFLOW}.compat.v1", f"{_TENSORFLOW}.compat.v2")
_PARTS: Final = frozenset(
    (
        *(f"{_TENSORFLOW}.{name}" for name in ("__internal__.feature_column", "feature_column")),
        *(f"{_TENSORFLOW}.{name}" for name in ("lite", "mlir", "profiler", "quantization")),
        *_VERSIONS,
        "tensorflow.python.keras.models",
        # `keras` and `tf.keras` offer the same by two trees of names.
        "keras._tf_keras.keras",
        *(
            f"{tree}.{name}"
            for tree in ("keras", "keras._tf_keras.keras")
            for name in ("applications", "datasets", "visualization", "wrappers")
        ),
        "keras.src.visualization",
        "keras.src.trainers.data_adapters.array_slicing",
    )
)
_LEGACY: Final = "keras.src.legacy"
_REGISTERING: Final = {
    # It belongs to what is there from the start. And the package behind `tf.lite` would take its
    # place if it were imported after it.
    f"{_TENSORFLOW}.lite": (
        "tensorflow.lite.experimental.microfrontend.python.ops.audio_microfrontend_op",
    ),
    # What saved models of former versions name is found by its name in Keras.
    "keras._tf_keras.keras": (
        *(f"{_LEGACY}.{name}" for name in ("backend", "layers", "losses")),
        *(f"{_LEGACY}.preprocessing.{name}" for name in ("image", "sequence", "text")),
    ),
}
"""Modules that parts import and that others find by a registry."""

_WAITING: Final = "__quintain_waiting__"


def install() -> None:
    """Puts off the parts in this process, unless TensorFlow is there already."""
    is_known = any(isinstance(finder, _Finder) for finder in sys.meta_path)
    if "tensorflow" not in sys.modules and not is_known:
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the parts as the others do, and has them loaded later."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns None but for the parts."""
        if fullname not in _PARTS and fullname.rpartition(".")[0] not in _VERSIONS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    """Makes a module that its own loader runs later."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        """Stores the module's own loader."""
        self._loader = loader
        self._lock = threading.RLock()
        self._is_running = False
        self._path: Any = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Creates a module that is run when it is asked for something it has not."""
        return _WaitingModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Leaves the module as it is."""
        for name in _REGISTERING.get(module.__name__, ()):
            importlib.import_module(name)
        # Without it, whoever imports a module of the package asks for it, and has the package run.
        self._path = vars(module).pop("__path__", None)
        vars(module)[_WAITING] = self

    def run(self, module: types.ModuleType) -> None:
        """Hands the module back to its own loader, and runs it, once.

        It goes on waiting if that fails: whoever asks next is told why as well.
        """
        with self._lock:
            if self._is_running or _WAITING not in vars(module):
                return  # The module asks for a name of its own; or another thread was first.
            self._is_running = True
            try:
                self._execute(module)
            finally:
                self._is_running = False
            del vars(module)[_WAITING]
            module.__class__ = types.ModuleType
            replacement = sys.modules[module.__name__]
            if replacement is not module:  # As modules of TensorFlow's first version do.
                package, _, name = module.__name__.rpartition(".")
                setattr(sys.modules[package], name, replacement)

    def _execute(self, module: types.ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        if self._path is not None:
            module.__path__ = self._path
        self._loader.exec_module(module)


class _WaitingModule(types.ModuleType):
    """A module that has not run yet."""

    def __getattr__(self, name: str) -> Any:
        """Runs the module, and returns what it has by that name."""
        _run(self)
        if type(self) is _WaitingModule:  # It is being made, or is running.
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(self, name)

    def __dir__(self) -> list[str]:
        """Runs the module, and lists what it has."""
        _run(self)
        return list(types.ModuleType.__dir__(self))


def _run(module: types.ModuleType) -> None:
    loader = vars(module).get(_WAITING)
    if loader is not None:
        loader.run(module)
