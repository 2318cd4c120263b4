"""Calls of a storage that may fail for a while: repeated with longer and longer pauses.

Python's and NumPy's generators of random numbers are not used: trials that are restored must draw
the same numbers, whether a storage was away or not.
"""

import errno
import logging
import secrets
import threading
import time
from collections.abc import Callable
from concurrent import futures
from typing import Final, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")

_FIRST_PAUSE_SECS: Final = 0.1
_MAX_PAUSE_SECS: Final = 20.0
_TOLD_AGAIN_SECS: Final = 60.0
_MOST_DOUBTFUL: Final = 3
_LASTING_CODES: Final = frozenset(
    {errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENAMETOOLONG, errno.ENOSYS, errno.EROFS}
)
_LASTING_TYPES: Final = (
    FileExistsError,
    FileNotFoundError,
    ImportError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)
_CREDENTIAL_NAMES: Final = frozenset(
    {
        "ClientAuthenticationError",
        "CredentialRetrievalError",
        "CredentialUnavailableError",
        "DefaultCredentialsError",
        "NoAuthTokenError",
        "NoCredentialsError",
        "PartialCredentialsError",
        "ProfileNotFound",
        "RefreshError",
        "TokenRetrievalError",
        "UnauthorizedSSOTokenError",
    }
)
_REMOTE_MODULES: Final = (
    "adlfs",
    "aiobotocore",
    "aiohttp",
    "azure",
    "botocore",
    "gcsfs",
    "google",
    "requests",
    "s3fs",
    "urllib3",
)


class NoAnswerError(TimeoutError):
    """A call took longer than it may."""


def is_about_credentials(error: BaseException) -> bool:
    """Whether a storage does not accept who asks, by the names of its client's errors."""
    names = {each.__name__ for each in type(error).__mro__}
    return isinstance(error, PermissionError) or bool(names & _CREDENTIAL_NAMES)


def is_lasting(error: Exception) -> bool:
    """Whether an error would come again, however often the call is repeated."""
    if isinstance(error, _LASTING_TYPES) or is_about_credentials(error):
        return True
    if isinstance(error, OSError):
        return error.errno in _LASTING_CODES
    module = type(error).__module__.partition(".")[0]
    return not (isinstance(error, TimeoutError | EOFError) or module in _REMOTE_MODULES)


def call(function: Callable[[], T], *, doing: str, patience_secs: float) -> T:
    """Returns what a call returns, which is repeated if a storage does not answer.

    Args:
        function: The call; doing it twice must do no harm.
        doing: What it does and where, for the log: `s3://bucket: listing`.
        patience_secs: Seconds after which it is given up.

    Raises:
        Exception: What the last call raised.
    """
    start, told, attempt = time.monotonic(), None, 0
    while True:
        try:
            return function()
        except Exception as error:
            attempt += 1
            left = start + patience_secs - time.monotonic()
            # A request that was refused as wrong may have been torn on its way.
            is_doubtful = isinstance(error, OSError) and error.errno == errno.EINVAL
            if is_lasting(error) or left <= 0 or (is_doubtful and attempt >= _MOST_DOUBTFUL):
                raise
            now = time.monotonic()
            if told is None or now > told + _TOLD_AGAIN_SECS:
                told = now
                logger.warning("%s: failed and is tried again: %s", doing, describe(error))
        longest = min(_FIRST_PAUSE_SECS * 2 ** min(attempt, 16), _MAX_PAUSE_SECS)
        share = 0.5 + secrets.randbelow(1000) / 2000
        time.sleep(min(longest * share, max(left, 0.0)))


def call_within(function: Callable[[], T], secs: float) -> T:
    """Returns what a call returns, unless that takes too long.

    Clients have timeouts of their own, but not for everything: a server that takes a connection and
    never asks for what is announced is waited for without end.

    Args:
        function: The call. One that takes too long is left to a thread that nobody waits for.
        secs: Seconds that it may take.

    Raises:
        NoAnswerError: If it takes longer.
        Exception: What the call raised.
    """
    done: futures.Future[T] = futures.Future()

    def run() -> None:
        try:
            done.set_result(function())
        except BaseException as error:  # noqa: BLE001 - it is raised by who waits.
            done.set_exception(error)

    threading.Thread(target=run, name="quintain-storage", daemon=True).start()
    if not futures.wait([done], secs).done:
        raise NoAnswerError(f"there was no answer within {secs:g} s")
    return done.result()


def describe(error: BaseException) -> str:
    """Returns what an error says on one line; its name if that is nothing."""
    text = getattr(error, "strerror", None) or str(error)
    lines = str(text).strip().splitlines()
    return lines[0][:500] if lines else type(error).__name__
