"""Retries of storage calls that may fail for a while, with exponential backoff.

A disk that is full is waited for without end: there is room again when somebody makes it.

Python's and NumPy's generators of random numbers are not used: trials that are restored must draw
the same numbers, whether a storage was away or not.
"""

import contextlib
import errno
import logging
import math
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Set
from concurrent import futures
from typing import Final, TypeVar

from quintain import errors
from quintain.files import disk_errors

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
_NOBODY_NAMES: Final = frozenset(
    {
        "CredentialUnavailableError",
        "DefaultCredentialsError",
        "NoAuthTokenError",
        "NoCredentialsError",
        "PartialCredentialsError",
        "ProfileNotFound",
    }
)
_REFUSAL_NAMES: Final = frozenset(
    {
        "ClientAuthenticationError",
        "CredentialRetrievalError",
        "RefreshError",
        "TokenRetrievalError",
        "UnauthorizedSSOTokenError",
    }
)
_REFUSED: Final = frozenset({401, 403})
_LATER: Final = frozenset({404, 408, 409, 412, 423, 425, 429})
"""Answers to a request that may be as it should be; others from 400 to 499 say that it is wrong."""

_NO_BUCKET_CODES: Final = frozenset({"NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted"})
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


Listener = Callable[[str], None]
"""Callback for the error of a call that is retried; gets an empty text when none is any more."""

_listeners: list[Listener] = []
_waiting: dict[object, str] = {}
_telling = threading.Lock()


class NoAnswerError(TimeoutError):
    """A call has timed out."""


@contextlib.contextmanager
def wait_listener(listener: Listener) -> Iterator[None]:
    """Reports retried calls to a listener, which may be called from any thread, meanwhile."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def note(who: object, text: str) -> None:
    """Reports the longest wait to all listeners; an empty text if there is none any more.

    Args:
        who: Who waits, among others that may do so as well.
        text: What for; empty if that is over.
    """
    with _telling:
        if text:
            _waiting[who] = text
        else:
            _waiting.pop(who, None)
        said = next(iter(_waiting.values()), "")
        for listener in tuple(_listeners):
            listener(said)


class NoBucketError(OSError):
    """The bucket, or what a storage calls so, is missing; all in it may be."""


def is_about_credentials(error: BaseException) -> bool:
    """Returns whether a storage rejects the credentials, by its client's own words."""
    return (
        isinstance(error, PermissionError)
        or _is_named(error, _NOBODY_NAMES | _REFUSAL_NAMES)
        or find_status(error) in _REFUSED
    )


def finds_no_credentials(error: BaseException) -> bool:
    """Returns whether a client found no credentials, so that it sent no request."""
    return _is_named(error, _NOBODY_NAMES)


def is_refusal(error: BaseException) -> bool:
    """Returns whether a storage that can be reached refuses what it may allow later.

    Credentials were withdrawn, or its bucket was deleted. A client that finds no credentials at all
    was never let in.
    """
    if names_no_bucket(error):
        return True
    return is_about_credentials(error) and not finds_no_credentials(error)


def names_no_bucket(error: BaseException) -> bool:
    """Returns whether a storage says that the bucket, not only an object, is missing."""
    return isinstance(error, NoBucketError) or any(
        _find_code(each) in _NO_BUCKET_CODES for each in _find_causes(error)
    )


def find_status(error: BaseException) -> int | None:
    """Returns the status of the HTTP answer that an error of a client stands for, if of one."""
    for each in _find_causes(error):
        response = getattr(each, "response", None)
        if isinstance(response, dict):  # botocore
            found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        elif type(each) is OSError and str(each).startswith("Forbidden: "):  # gcsfs
            found = 403
        else:
            names = ("status_code", "status", "code")  # azure, aiohttp; gcsfs, which may use texts
            found = next((value for n in names if (value := getattr(each, n, None))), None)
        if str(found).isdecimal():
            return int(str(found))
    return None


def _find_code(error: BaseException) -> str:
    """Returns the word for what is wrong that botocore or azure took out of an answer."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        return str(response.get("Error", {}).get("Code"))
    found = getattr(error, "error_code", None)  # A text, or of an enumeration.
    return str(getattr(found, "value", found))


def _find_causes(error: BaseException) -> Iterator[BaseException]:
    """Yields an error, and those that a client made it of."""
    found: BaseException | None = error
    seen: set[int] = set()
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or found.__context__


def _is_named(error: BaseException, names: Set[str]) -> bool:
    """Returns whether an error is of a class of this name, whose package may be missing."""
    return any(each.__name__ in names for each in type(error).__mro__)


def is_lasting(error: Exception) -> bool:
    """Returns whether an error is permanent: it would come again on every retry."""
    if isinstance(error, _LASTING_TYPES) or names_no_bucket(error) or is_about_credentials(error):
        return True
    if isinstance(error, OSError):
        return error.errno in _LASTING_CODES
    module = type(error).__module__.partition(".")[0]
    return not (isinstance(error, TimeoutError | EOFError) or module in _REMOTE_MODULES)


def _is_doubtful(error: Exception) -> bool:
    """Returns whether a request was refused as malformed, which may have been torn on its way."""
    if isinstance(error, OSError):
        return error.errno == errno.EINVAL
    status = find_status(error)
    return status is not None and 400 <= status < 500 and status not in _LATER


def call(
    function: Callable[[], T], *, doing: str, patience_secs: float, outlasts_refusals: bool = False
) -> T:
    """Returns what a call returns, which is repeated if a storage does not answer.

    Args:
        function: The call; doing it twice must do no harm.
        doing: What it does and where, for the log: `s3://bucket: listing`.
        patience_secs: Seconds after which it is given up.
        outlasts_refusals: Whether credentials that are refused, and a bucket that is not there, are
            waited for as well: computed work is at stake, and they were good before.

    Raises:
        Exception: What the last call raised.
    """

    def is_over(error: Exception, attempt: int) -> bool:
        if is_lasting(error):
            return not (outlasts_refusals and is_refusal(error))
        return _is_doubtful(error) and attempt >= _MOST_DOUBTFUL

    return _repeat(function, doing, patience_secs, is_over)


def outlast_full_disks(
    function: Callable[[], T], *, doing: str, patience_secs: float = math.inf
) -> T:
    """Returns what a call returns, which is repeated for as long as a disk is full.

    Args:
        function: The call; doing it again from its beginning must do no harm.
        doing: What it does on this machine: `saving a checkpoint`.
        patience_secs: Seconds after which it is given up.

    Raises:
        Exception: What the call raised, if that was something else.
    """
    where = f"{socket.gethostname()}: {doing}"
    return _repeat(function, where, patience_secs, lambda error, _: not is_about_room(error))


def is_about_room(error: BaseException) -> bool:
    """Returns whether an error means a full disk, or a lost one, here or at the master."""
    return isinstance(error, errors.NoRoomError) or disk_errors.is_full(error)


def find_kind(error: OSError) -> type[errors.CheckpointError]:
    """Returns the class of error by which a checkpoint is refused that a disk does not take."""
    if disk_errors.is_full(error):
        return errors.NoRoomError
    return errors.DiskAwayError if disk_errors.is_lost(error) else errors.CheckpointError


def _repeat(
    function: Callable[[], T],
    doing: str,
    patience_secs: float,
    is_over: Callable[[Exception, int], bool],
) -> T:
    start, told, attempt, who = time.monotonic(), None, 0, object()
    try:
        while True:
            try:
                return function()
            except Exception as error:
                attempt += 1
                left = start + patience_secs - time.monotonic()
                if is_over(error, attempt) or left <= 0:
                    raise
                now = time.monotonic()
                if told is None or now > told + _TOLD_AGAIN_SECS:
                    told, reason = now, describe(error)
                    logger.warning("%s: failed and is tried again: %s", doing, reason)
                    note(who, f"{doing}: {reason}")
            longest = min(_FIRST_PAUSE_SECS * 2 ** min(attempt, 16), _MAX_PAUSE_SECS)
            share = 0.5 + secrets.randbelow(1000) / 2000
            time.sleep(min(longest * share, max(left, 0.0)))
    finally:
        if told is not None:
            note(who, "")


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
    """Returns what an error says on one line; its name if that is nothing. A full disk is named."""
    place = disk_errors.explain(error) if disk_errors.is_full(error) else None
    text = place or getattr(error, "strerror", None) or str(error)
    lines = str(text).strip().splitlines()
    return lines[0][:500] if lines else type(error).__name__
