"""Calls of an fsspec file system, with timeouts and retries.

A client has timeouts of its own, but not for everything: a server that takes a connection and never
reads what is sent is waited for without end.
"""

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent import futures
from typing import Any, Final, TypeVar

from quintain import errors
from quintain.records.config import checkpoint_storage_config
from quintain.storage import remote_systems, retries

T = TypeVar("T")

ANSWER_SECS: Final = checkpoint_storage_config.ANSWER_SECS
SLOWEST_BYTES: Final = 128 * 1024
"""Bytes of a file for which a call has a second more."""

_NUM_THREADS: Final = 8
_NO_SIZES: Final[Mapping[str, int]] = {}


class RemoteCalls:
    """Calls one file system. All methods may be called from threads.

    Args:
        url: Where.
        options: What fsspec's file system is made with.
        patience_secs: How long a call that fails is repeated.
        answer_secs: How long one may take; for a file, a second more for each `SLOWEST_BYTES`.
        outlasts_refusals: Whether refused credentials, and a bucket that is not there, are waited
            for as long.

    Attributes:
        patience_secs: The same.
        answer_secs: The same.
        outlasts_refusals: The same.
    """

    def __init__(
        self,
        url: str,
        options: Mapping[str, Any],
        *,
        patience_secs: float,
        answer_secs: float = ANSWER_SECS,
        outlasts_refusals: bool = False,
    ) -> None:
        self.patience_secs = patience_secs
        self.answer_secs = answer_secs
        self.outlasts_refusals = outlasts_refusals
        self._url = url
        self._options = options
        self._lock = threading.Lock()

    @property
    def system(self) -> Any:
        """The file system; another one after it did not answer."""
        return self._opened[0]

    @property
    def root(self) -> str:
        """The path of the URL there."""
        return self._opened[1].rstrip("/")

    @functools.cached_property
    def _opened(self) -> tuple[Any, str]:
        try:
            return remote_systems.open_system(self._url, self._options)
        except errors.ConfigError as error:
            # Who gave the address is elsewhere: here it is a storage that can't be used.
            raise errors.CheckpointError(str(error)) from error

    def find(self, path: str) -> dict[str, Mapping[str, Any]]:
        """Returns what fsspec knows of all files below a path, by their paths there; for `call`.

        Some clients find nothing in a bucket that is not there.

        Raises:
            NoBucketError: If it is not.
        """
        self.system.invalidate_cache()
        found = self.system.find(path, detail=True)
        if not found:
            remote_systems.require_bucket(self._url, *self._opened)
        root = path.lstrip("/")
        return {
            one.lstrip("/")[len(root) :].lstrip("/"): info
            for one, info in found.items()
            if info.get("type") != "directory" and one.lstrip("/") != root
        }

    def make_parent(self, path: str) -> None:
        """Makes the directory of a file, where there are directories."""
        if not remote_systems.is_object_store(self._url):
            self.system.makedirs(path.rpartition("/")[0], exist_ok=True)

    def call(
        self, function: Callable[[], T], doing: str, *, num_bytes: int = 0, is_file: bool = False
    ) -> T:
        """Returns what a call returns.

        Args:
            function: The call, by `system`; doing it twice must do no harm.
            doing: What it does and where, for errors and the log: `s3://bucket: listing`.
            num_bytes: Size of the file that it sends or gets.
            is_file: Whether a file that is not there is an error of its own.

        Raises:
            NotFoundError: If the file is not there.
            CheckpointError: If it failed until the time was over, or would fail again.
        """
        with _errors_explained(doing, is_file=is_file):
            return self._repeat(function, doing, num_bytes)

    def for_each(
        self,
        paths: Collection[str],
        function: Callable[[str], None],
        doing: str,
        sizes: Mapping[str, int] = _NO_SIZES,
    ) -> None:
        """Calls a function for several files at a time, as `call` does.

        Raises:
            CheckpointError: As for `call`.
        """
        if not paths:
            return
        with futures.ThreadPoolExecutor(min(_NUM_THREADS, len(paths))) as pool:
            jobs = [
                pool.submit(
                    self._repeat,
                    functools.partial(function, path),
                    f"{doing} {path}",
                    # They share the way.
                    _NUM_THREADS * sizes.get(path, 0),
                )
                for path in sorted(paths)
            ]
            with _errors_explained(doing):
                try:
                    for job in jobs:
                        job.result()
                finally:
                    pool.shutdown(wait=True, cancel_futures=True)

    def _repeat(self, function: Callable[[], T], doing: str, num_bytes: int) -> T:
        secs = self.answer_secs + num_bytes / SLOWEST_BYTES

        def ask() -> T:
            try:
                return function()
            except FileNotFoundError:
                remote_systems.require_bucket(self._url, *self._opened)
                raise

        def call() -> T:
            opened = self._opened
            try:
                return retries.call_within(ask, secs)
            except Exception as error:
                # What waits there still holds connections; who comes next has others. And a client
                # keeps credentials that it has found; new ones may lie where they were.
                if isinstance(error, retries.NoAnswerError) or retries.is_refusal(error):
                    with self._lock:
                        if self.__dict__.get("_opened") is opened:
                            del self.__dict__["_opened"]
                raise

        return retries.call(
            call,
            doing=doing,
            patience_secs=self.patience_secs,
            outlasts_refusals=self.outlasts_refusals,
        )


def read_secs(name: str, default: float) -> float:
    """Returns the seconds that an environment variable says.

    Raises:
        ConfigError: If it is no number above 0.
    """
    text = os.environ.get(name)
    try:
        found = float(text) if text else default
    except ValueError:
        found = -1.0
    if not 0 < found < 1e9:
        raise errors.ConfigError(f"{name}: got {text!r}, expected a number of seconds above 0.")
    return found


@contextlib.contextmanager
def _errors_explained(doing: str, *, is_file: bool = False) -> Iterator[None]:
    try:
        yield
    except errors.QuintainError:
        raise
    except FileNotFoundError as error:
        if is_file:
            raise errors.NotFoundError(f"{doing}: there is none of this name.") from error
        raise errors.CheckpointError(f"{doing}: {retries.describe(error)}.") from error
    except Exception as error:
        # The clients of object stores have errors of their own.
        text = f"{doing}: {retries.describe(error).rstrip('.')}."
        if retries.is_about_credentials(error):
            text += " Check the credentials of this machine, and that they may do so."
        raise errors.CheckpointError(text) from error
