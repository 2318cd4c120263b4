"""A connection to a master: JSON over HTTP that survives the master's restarts.

A master on this machine is reached by a Unix socket in its home directory, so that what is sent,
tokens above all, reaches nobody else; see `unix_sockets`. On another one it is reached over TLS,
and shows its certificate before anything is sent; see `tls_pools`.

One `Connection` keeps its TCP connections open between requests, and may be used by several
threads. What the master refuses is raised here as the error that was raised there.
"""

import dataclasses
import json
import logging
import pathlib
import re
import socket
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, Final

import urllib3
from urllib3 import connection as urllib3_connection

from quintain import errors
from quintain.client import address as address_lib
from quintain.client.http import patient_sending, tls_pools, unix_sockets

_KINDS_BY_STATUS: Final[dict[int, type[errors.QuintainError]]] = {
    400: errors.ConfigError,
    401: errors.UnauthorizedError,
    403: errors.UnauthorizedError,
    404: errors.NotFoundError,
    409: errors.StateError,
    410: errors.GoneError,
    422: errors.ConfigError,
}

_SILENT_SECS: Final = 30

_PAUSE_SECS: Final = 10

_MOST_UNANSWERED: Final = 6

_SETTINGS: Final = {
    "TCP_KEEPIDLE": _SILENT_SECS,
    "TCP_KEEPALIVE": _SILENT_SECS,  # The same on macOS.
    "TCP_KEEPINTVL": _PAUSE_SECS,
    "TCP_KEEPCNT": _MOST_UNANSWERED,
}

_KEEP_ALIVE: Final = [
    *urllib3_connection.HTTPConnection.default_socket_options,
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in _SETTINGS.items()
        if hasattr(socket, name)
    ),
]
"""Keep-alive options of TCP sockets: a connection ends after a minute and a half of silence."""


logger = logging.getLogger(__name__)

_REPEATABLE_METHODS: Final = frozenset({"GET", "PUT", "DELETE"})
_AWAY_STATUSES: Final = frozenset({502, 503, 504, 507})
_POOL: Final[Any] = {"maxsize": 8, "retries": False, "socket_options": _KEEP_ALIVE}
_CONNECT_SECS: Final = 5.0
_PIECE_BYTES: Final = 1 << 20
_BYTES: Final = {"Content-Type": "application/octet-stream"}
_PARTIAL: Final = 206
_LOOK_SECS: Final = 0.05
_UNIX: Final = "unix:"
_TLS: Final = "https://"
_OBJECT: Final = re.compile(r"^(.*>: |\w*Connection\(host=.*?, port=\d*\): )")


@dataclasses.dataclass(frozen=True)
class Retries:
    """Retry policy: total time, with growing pauses."""

    total_secs: float = 5.0
    """Seconds after the first failure at which to give up."""

    first_pause_secs: float = 0.1
    """Pause after the first failure; each further one is twice as long."""

    max_pause_secs: float = 15.0
    """Longest pause."""

    total_fault_secs: float = 5.0
    """Seconds for which a request that the master failed at (status 500) is repeated, where it may
    be repeated at all."""


class Connection:
    """Sends requests to a master.

    Args:
        address: Where the master is.
        retries: How long to try again if the master does not answer.
        timeout_secs: Seconds after which an answer counts as lost.
        find_master: Returns where the master is now, or None if it is not known. Asked before a
            request is tried again: a restarted master may be somewhere else.

    Example:
        >>> nobody = address_lib.Address("http://127.0.0.1:1")
        >>> with Connection(nobody, retries=Retries(0.0)) as connection:
        ...     connection.request("GET", "/api/v1/master")
        Traceback (most recent call last):
        ...
        quintain.errors.MasterUnreachableError: No master answers at http://127.0.0.1:1: ...
    """

    def __init__(
        self,
        address: address_lib.Address,
        *,
        retries: Retries = Retries(),
        timeout_secs: float = 60.0,
        find_master: Callable[[], address_lib.Address | None] | None = None,
    ) -> None:
        self._address = address
        self._retries = retries
        self._timeout_secs = timeout_secs
        self._find_master = find_master
        self._pools: dict[tuple[str, str], urllib3.HTTPConnectionPool] = {}

    @property
    def address(self) -> address_lib.Address:
        """Address at which the master was found last."""
        return self._address

    def request(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        query: Mapping[str, Any] | None = None,
        timeout_secs: float | None = None,
        is_repeatable: bool | None = None,
    ) -> Any:
        """Sends a request and returns the answer.

        A request that did not reach the master is tried again. One that may have reached it is
        tried again only if doing it twice does no harm.

        Args:
            method: `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
            path: Path from the root, like `/api/v1/experiments`.
            body: Plain data to send as JSON.
            query: Parameters to append to the path: lists one by one, and nothing for None.
            timeout_secs: Seconds to wait for the answer; None for those of the connection.
            is_repeatable: Whether doing it twice does no harm. None for what the method promises:
                true for `GET`, `PUT` and `DELETE`.

        Returns:
            Plain data, or None if the answer is empty.

        Raises:
            MasterUnreachableError: If no answer came, and trying again did not help.
            UntrustedMasterError: If another certificate is shown than the expected one.
            UnauthorizedError: If the master does not accept the token.
            QuintainError: What the master raised, of the same class.
        """
        if is_repeatable is None:
            is_repeatable = method in _REPEATABLE_METHODS
        attempts = self.attempt()
        while True:
            address, response, is_fault = self._address, None, False
            try:
                response = self._send(method, path, body, query, timeout_secs)
            except urllib3.exceptions.HTTPError as error:
                cause: Exception = error
                is_safe = is_repeatable or _never_arrived(error)
            else:
                if response.status == 401 and self._relocate() != address:
                    continue
                if response.status < 500:
                    return read_answer(response.status, response.data)
                is_fault = response.status not in _AWAY_STATUSES
                kind = errors.MasterFaultError if is_fault else errors.ClusterError
                said = find_error(response.data).get("message") or f"status {response.status}"
                cause, is_safe = kind(said), is_repeatable or not is_fault
            if not is_safe or not attempts.pause(f"{method} {path}", cause):
                if response is not None and (response.data or is_fault):
                    # The master is there, and says why it can't do it now.
                    return read_answer(response.status, response.data)
                raise self._say_lost(cause) from cause
            self._relocate()

    def stream(
        self, path: str, *, query: Mapping[str, Any] | None = None, timeout_secs: float = 60.0
    ) -> Iterator[str]:
        """Yields the lines of an endless answer, such as server-sent events, as they come.

        Args:
            path: Path from the root.
            query: Parameters to append to the path.
            timeout_secs: Seconds without any line after which the master counts as lost.

        Raises:
            MasterUnreachableError: If the connection is lost.
            QuintainError: What the master raised, of the same class.
        """
        try:
            response = self._send("GET", path, None, query, timeout_secs, is_stream=True)
            try:
                if response.status >= 300:
                    read_answer(response.status, response.read())
                rest = b""
                # Blocks until something came, not until a buffer is full.
                while piece := response.read1():
                    *lines, rest = (rest + piece).split(b"\n")
                    for line in lines:
                        yield line.rstrip(b"\r").decode("utf-8", "replace")
                if rest:
                    yield rest.decode("utf-8", "replace")
            finally:
                response.close()
        except urllib3.exceptions.HTTPError as error:
            raise self._say_lost(error) from error

    def download(
        self, path: str, file: IO[bytes], *, offset: int = 0, timeout_secs: float = 60.0
    ) -> None:
        """Writes an answer that is no JSON into a file, piece by piece.

        Args:
            path: Path from the root.
            file: Where to write it.
            offset: Bytes at the beginning that are not asked for.
            timeout_secs: Seconds without any data after which the master counts as lost.

        Raises:
            MasterUnreachableError: If the connection is lost, or was before.
            QuintainError: What the master raised, of the same class.
        """
        try:
            part = {"Range": f"bytes={offset}-"} if offset else {}
            response = self._send(
                "GET", path, None, None, timeout_secs, is_stream=True, headers=part
            )
            try:
                if response.status >= 300:
                    read_answer(response.status, response.read())
                if offset and response.status != _PARTIAL:
                    raise errors.DataError(f"{path}: the master sends no parts of files.")
                while piece := response.read1(_PIECE_BYTES):  # What came before it broke off.
                    file.write(piece)
            finally:
                response.release_conn()
        except urllib3.exceptions.HTTPError as error:
            raise self._say_lost(error) from error

    def send_bytes(self, path: str, data: bytes, *, query: Mapping[str, Any]) -> Any:
        """Sends data by `PUT`, once, and returns the answer; raises what `download` does."""
        try:
            response = self._send("PUT", path, data, query, None, headers=_BYTES)
        except urllib3.exceptions.HTTPError as error:
            raise self._say_lost(error) from error
        return read_answer(response.status, response.data)

    def attempt(self) -> "Attempts":
        """Returns what counts the attempts at something, and waits between them."""
        return Attempts(self._retries, _find_socket(self._address))

    def close(self) -> None:
        """Closes the connections."""
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(
        self,
        method: str,
        path: str,
        body: object,
        query: Mapping[str, Any] | None,
        timeout_secs: float | None,
        *,
        is_stream: bool = False,
        headers: Mapping[str, str] = {},
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": "application/json", **headers}
        if self._address.token:
            headers["Authorization"] = f"Bearer {self._address.token}"
        data = body if isinstance(body, bytes) else None
        if body is not None and data is None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        url = urllib.parse.urlsplit(self._address.url).path.rstrip("/") + path
        if self._address.url.startswith(_UNIX):
            url = path
        if fields := list(_list_fields(query or {})):
            url += "?" + urllib.parse.urlencode(fields)
        read_secs = self._timeout_secs if timeout_secs is None else timeout_secs
        return self._find_pool(self._address).request(
            method,
            url,
            body=data,
            headers=headers,
            timeout=urllib3.Timeout(connect=_CONNECT_SECS, read=read_secs),
            preload_content=not is_stream,
            # A token goes to the master only, wherever an answer points to.
            redirect=False,
        )

    def _find_pool(self, address: address_lib.Address) -> urllib3.HTTPConnectionPool:
        """Returns the pool of connections to an address.

        Raises:
            ConfigError: If the address can't show the certificate that is expected of it.
        """
        key = address.url, address.fingerprint
        if key not in self._pools:
            self._pools[key] = _build_pool(address)
        return self._pools[key]

    def _say_lost(self, cause: Exception) -> errors.MasterUnreachableError:
        message = f"No master answers at {self._address.url}: {_explain(cause, self._address.url)}"
        is_other = isinstance(cause, tls_pools.UntrustedError)
        return (errors.UntrustedMasterError if is_other else errors.MasterUnreachableError)(message)

    def _relocate(self) -> address_lib.Address:
        found = None if self._find_master is None else self._find_master()
        if found is not None and found != self._address:
            logger.info("The master is at %s now.", found.url)
            self._address = found
        return self._address


def _build_pool(address: address_lib.Address) -> urllib3.HTTPConnectionPool:
    if (path := _find_socket(address)) is not None:
        return unix_sockets.SocketPool(path, maxsize=_POOL["maxsize"])
    if address.url.startswith(_TLS):
        return tls_pools.TlsPool(address.url, address.fingerprint, **_POOL)
    if address.fingerprint:
        raise errors.ConfigError(
            f"{address.url}: shows no certificate, but one is expected (fingerprint "
            f"{address.fingerprint}); the address of such a master begins with https://."
        )
    parts = urllib.parse.urlsplit(address.url)
    return patient_sending.PatientPool(parts.hostname or "", parts.port, **_POOL)


def _find_socket(address: address_lib.Address) -> pathlib.Path | None:
    is_unix = address.url.startswith(_UNIX)
    return pathlib.Path(address.url.removeprefix(_UNIX)) if is_unix else None


class Attempts:
    """Counts the time since a request failed first.

    Args:
        retries: How long to try again, with which pauses.
        listener: The Unix socket of the master; None if it has none. When another master begins to
            listen there, a pause is over.
    """

    def __init__(self, retries: Retries, listener: pathlib.Path | None = None) -> None:
        self._retries = retries
        self._listener = listener
        self._pause_secs = retries.first_pause_secs
        self._first_failure: float | None = None

    def pause(self, what: str, cause: Exception) -> bool:
        """Waits before the next attempt; returns False at once if there is to be none."""
        total_secs = self._retries.total_secs
        if isinstance(cause, errors.MasterFaultError):
            total_secs = min(total_secs, self._retries.total_fault_secs)
        left = total_secs - self._secs()
        if left <= 0.0:
            return False
        is_told = 1.0 <= self._pause_secs < self._retries.max_pause_secs  # Not each longest one.
        logger.log(
            logging.WARNING if is_told else logging.DEBUG,
            "The master %s (%s: %s); trying again for %.0f s.",
            "can't do it now" if isinstance(cause, errors.QuintainError) else "does not answer",
            what,
            _explain(cause),
            left,
        )
        if self._rest(min(self._pause_secs, left)):
            self._pause_secs = self._retries.first_pause_secs
        else:
            self._pause_secs = min(2.0 * self._pause_secs, self._retries.max_pause_secs)
        return True

    def _rest(self, secs: float) -> bool:
        """Sleeps; returns whether another master began to listen, which ends it."""
        if self._listener is None:
            time.sleep(secs)
            return False
        end, former = time.monotonic() + secs, unix_sockets.identify(self._listener)
        while (left := end - time.monotonic()) > 0.0:
            time.sleep(min(left, _LOOK_SECS))
            if unix_sockets.identify(self._listener) not in (former, None):
                return True
        return False

    def _secs(self) -> float:
        now = time.monotonic()
        self._first_failure = now if self._first_failure is None else self._first_failure
        return now - self._first_failure


def _list_fields(query: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the parameters of a query: lists one by one, and nothing for None."""
    for name, value in query.items():
        for part in value if isinstance(value, list | tuple) else [value]:
            if part is not None:
                yield name, str(part).lower() if isinstance(part, bool) else str(part)


def _never_arrived(error: urllib3.exceptions.HTTPError) -> bool:
    known = urllib3.exceptions
    return isinstance(error, known.NewConnectionError | known.ConnectTimeoutError)


def _explain(cause: Exception, url: str = "") -> str:
    # urllib3 puts its object first: "<...HTTPConnection object at 0x..>: Failed...", for example.
    said = cause.args if isinstance(cause, urllib3.exceptions.ProtocolError) else (cause,)
    text = _OBJECT.sub("", ": ".join(map(str, said)).replace(".: ", ": ")) or type(cause).__name__
    is_plain = url.startswith("http://") and "without response" in text
    return f"{text}; if it speaks TLS, its address begins with https://" if is_plain else text


def read_answer(status: int, data: bytes) -> Any:
    """Returns the plain data of an answer, or None if it is empty.

    Raises:
        QuintainError: What the master raised, of the same class.
    """
    if status < 300:
        return json.loads(data) if data else None
    described = find_error(data)
    said = described.get("message") or data.decode("utf-8", "replace") or f"status {status}"
    message, known = str(said), getattr(errors, str(described.get("kind")), None)
    if isinstance(known, type) and issubclass(known, errors.QuintainError):
        is_fault = known is errors.QuintainError and status >= 500
        raise (errors.MasterFaultError if is_fault else known)(message)
    if status in _KINDS_BY_STATUS:
        raise _KINDS_BY_STATUS[status](message)
    fault = errors.ClusterError if status < 500 else errors.MasterFaultError
    raise fault(f"The master failed with status {status}: {message}")


def find_error(data: bytes) -> dict[str, Any]:
    """Returns `message` and `kind` of what went wrong, as far as an answer says it."""
    try:
        content = json.loads(data)
    except ValueError:
        return {}
    content = content if isinstance(content, dict) else {}
    described = content.get("error")
    return described if isinstance(described, dict) else {"message": content.get("detail")}
