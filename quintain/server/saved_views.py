"""Named views of the page, kept in a file of the home."""

import pathlib
import threading
from typing import Final

from typing_extensions import TypedDict

from quintain import errors
from quintain.client.home import home as home_lib
from quintain.files import disk_errors

MOST_VIEWS: Final = 500
_MOST_NAME: Final = 100
_MOST_ADDRESS: Final = 8000


class SavedView(TypedDict):
    """A view of the page."""

    name: str
    address: str
    """What follows `#` in the page's address."""


class SavedViews:
    """Views that all browsers of a home share.

    Args:
        path: The file, as JSON; it may be missing.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def list_views(self) -> list[SavedView]:
        """Returns all views, by name."""
        return [SavedView(name=name, address=at) for name, at in sorted(self._read().items())]

    def save(self, name: str, address: str) -> None:
        """Saves a view, in place of one of the same name.

        Raises:
            ConfigError: If name or address can't be one, or there are too many views.
        """
        if name != name.strip() or not name.isprintable() or not 0 < len(name) <= _MOST_NAME:
            raise errors.ConfigError(
                f"name: got {name[:200]!r}, expected 1 to {_MOST_NAME} visible characters."
            )
        is_plain = address.startswith("/") and address.isascii() and address.isprintable()
        if not is_plain or len(address) > _MOST_ADDRESS:
            raise errors.ConfigError(
                f"address: got {address[:200]!r}, expected what follows `#` in the page's address, "
                f"at most {_MOST_ADDRESS} characters."
            )
        with self._lock:
            views = self._read() | {name: address}
            if len(views) > MOST_VIEWS:
                raise errors.ConfigError(
                    f"name: {MOST_VIEWS} views are saved, the most that a home keeps. Delete some."
                )
            home_lib.write_private(self._path, views)

    def delete(self, name: str) -> None:
        """Deletes a view.

        Raises:
            NotFoundError: If there is none of this name.
        """
        with self._lock:
            views = self._read()
            if views.pop(name, None) is None:
                raise errors.NotFoundError(f"view {name[:200]!r}: there is none of this name.")
            home_lib.write_private(self._path, views)

    def _read(self) -> dict[str, str]:
        try:
            views: dict[str, str] = disk_errors.read_json(self._path)
        except FileNotFoundError:
            return {}
        return views
