"""The metadata store: what the master remembers of experiments, in one database."""

from quintain.store.session import Session
from quintain.store.store import Store, open_store

__all__ = ["Session", "Store", "open_store"]
