"""Loads TensorFlow's native libraries beside the Python code that its import runs.

Mapping, relocating and initialising `libtensorflow_cc.so.2` takes a quarter of a second, in which
an import holds up all else. Here the dynamic loader does it in a thread, without Python's lock,
while packages are imported that TensorFlow, Keras and configs need a little later; and it looks
functions up when they are first called, as for most programs, instead of all 170,000 at once.
"""

import contextlib
import ctypes
import importlib
import os
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any, Final

_LIBRARY: Final = "libtensorflow_cc.so.2"
_BEFORE: Final = (
    # TensorFlow imports them before its libraries, which have functions of OpenSSL as well.
    *("hashlib", "ssl"),
    # The loader loads one library at a time, so that those of the packages below come first.
    *("_asyncio", "_csv", "_decimal", "_multiprocessing", "_pickle", "_queue", "_zoneinfo"),
    *("termios", "unicodedata", "google._upb._message", "pydantic_core", "wrapt", "yaml"),
)
_MEANWHILE: Final = (
    *("absl.app", "absl.logging", "absl.testing.parameterized", "asyncio", "astunparse", "dill"),
    *("gast", "google.protobuf.internal.builder", "multiprocessing.pool", "pydantic.type_adapter"),
    *("requests", "rich.console", "rich.table", "psutil"),
)


@contextlib.contextmanager
def loading_beside(tensorflow: types.ModuleType) -> Iterator[None]:
    """Loads the libraries in a thread that has ended when the context is left.

    What can't be loaded or imported here is left to whoever needs it, who says why.

    Args:
        tensorflow: The package, which has not run yet.
    """
    library = os.path.join(os.path.dirname(tensorflow.__file__ or ""), _LIBRARY)
    if not (sys.platform == "linux" and os.path.exists(library)):
        yield
        return
    _import_all(_BEFORE)
    thread = threading.Thread(target=_load, args=(library,), name="native-libraries", daemon=True)
    thread.start()
    try:
        _import_all(_MEANWHILE)
        yield
    finally:
        thread.join()


def _load(library: str) -> None:
    """Has the dynamic loader load a library, without holding Python's lock as `import` does."""
    names: Any = ctypes.CDLL(None)
    names.dlopen.argtypes = [ctypes.c_char_p, ctypes.c_int]
    names.dlopen.restype = ctypes.c_void_p
    names.dlopen(os.fsencode(library), os.RTLD_LAZY)


def _import_all(names: tuple[str, ...]) -> None:
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
