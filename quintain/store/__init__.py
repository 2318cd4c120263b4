"""The metadata store: what the master remembers of experiments, in one database.

Names load on first use, so that what only reads does not load SQLAlchemy.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quintain.store.session import Session
    from quintain.store.store import Store, open_store

__all__ = ["Session", "Store", "open_store"]

_MODULES = {"Session": "session", "Store": "store", "open_store": "store"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
