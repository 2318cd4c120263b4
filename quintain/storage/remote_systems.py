"""File systems of fsspec: opening them, and checking that they are usable."""

import json
import pathlib
import uuid
from collections.abc import Mapping
from typing import Any, Final

from quintain import errors
from quintain.storage import retries, store_clients

_OBJECT_STORES: Final = frozenset(
    {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "memory"}
)
_CREDENTIALS: Final = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, in the environment of "
    "the master and of the machines of trials, or give the machines a role",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS in the environment of the master and of the machines "
    "of trials, or give the machines a service account",
    "azure": "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or "
    "AZURE_STORAGE_CONNECTION_STRING, in the environment of the master and of the machines of "
    "trials",
}
_PROBE_SECS: Final = 30.0
"""An empty file that takes longer will never be there."""


def trim(url: str) -> str:
    """Returns a URL without slashes at its end, but with those that belong to its scheme.

    Example:
        >>> [trim(url) for url in ("s3://bucket/a/", "s3://")]
        ['s3://bucket/a', 's3://']
    """
    scheme, mark, rest = url.partition("://")
    return f"{scheme}{mark}{rest.rstrip('/')}" if mark else url.rstrip("/")


def is_object_store(url: str) -> bool:
    """Returns whether a file system has no directories that would have to be made."""
    return _scheme(url) in _OBJECT_STORES


def is_inside(*paths: str) -> bool:
    """True if relative paths lead to something below the directory that they are relative to."""
    parts = [pathlib.PurePosixPath(path) for path in paths]
    return all(one.parts and not one.is_absolute() and ".." not in one.parts for one in parts)


def open_system(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """Returns fsspec's file system of a URL, and the path there.

    Raises:
        ConfigError: If it is not installed or not known, does not take the options, or finds no
            credentials.
    """
    kind = _scheme(url)
    if kind in store_clients.EXTRAS and not url.partition("://")[2].partition("/")[0]:
        raise errors.ConfigError(f"{url}: names no bucket; expected {kind}://BUCKET/...")
    try:
        return store_clients.open_client(url, json.loads(json.dumps(dict(options))))
    except ImportError as error:
        extra = store_clients.EXTRAS.get(kind, "remote")
        raise errors.ConfigError(
            f"{url}: the package for {kind}:// is not installed ({error}): pip install "
            f'"quintain[{extra}]", on the machines of trials as well.'
        ) from error
    except (ValueError, TypeError, KeyError) as error:
        said = retries.describe(error).rstrip(".")
        raise errors.ConfigError(f"{url}: can't be opened: {said}.") from error
    except Exception as error:
        if not retries.is_about_credentials(error):
            raise
        raise errors.ConfigError(_explain(url, options, error)) from error


def require_bucket(url: str, system: Any, root: str) -> None:
    """Raises if that is gone in which everything is that is found below a URL.

    Raises:
        NoBucketError: If the bucket, or for other than object stores the directory, is not there.
    """
    bucket = root.strip("/").partition("/")[0]
    if not is_object_store(url):
        if not system.exists(root):
            raise retries.NoBucketError(f"there is no {root}")
        return
    # Below the root: credentials may be good for that alone.
    nothing = f"{root.strip('/')}/.quintain-{uuid.uuid4().hex}"
    try:
        system.find(nothing)  # Amazon's and Google's clients say it of a listing,
    except FileNotFoundError as error:
        raise retries.NoBucketError(f"there is no bucket {bucket!r}") from error
    try:
        system.cat_file(nothing)  # Azure's only of a file.
    except FileNotFoundError as error:
        if retries.names_no_bucket(error):
            raise retries.NoBucketError(f"there is no container {bucket!r}") from error


def check(url: str, options: Mapping[str, Any], *, patience_secs: float) -> None:
    """Checks that files can be written, read and deleted below a URL, by one that has no content.

    Raises:
        ConfigError: If not; it says why, and what to do.
    """
    system, root = open_system(url, options)
    path = f"{root.rstrip('/')}/.probe-{uuid.uuid4().hex}"

    def probe() -> None:
        if not is_object_store(url):
            system.makedirs(root, exist_ok=True)
        system.pipe_file(path, b"quintain")
        try:
            system.cat_file(path)
        finally:
            system.rm_file(path)

    try:
        retries.call(
            lambda: retries.call_within(probe, _PROBE_SECS),
            doing=f"{url}: writing",
            patience_secs=patience_secs,
        )
    except Exception as error:
        # The clients of object stores have errors of their own.
        raise errors.ConfigError(_explain(url, options, error)) from error


def _explain(url: str, options: Mapping[str, Any], error: Exception) -> str:
    kind = _scheme(url)
    said = retries.describe(error).rstrip(".")
    bucket = url.partition("://")[2].partition("/")[0]
    if retries.is_about_credentials(error):
        advice = _CREDENTIALS.get(
            store_clients.EXTRAS.get(kind, ""), "check the credentials of its client"
        )
        if retries.finds_no_credentials(error):
            return f"{url}: no credentials were found to read and write it ({said}): {advice}."
        return (
            f"{url}: may not be read and written with the credentials that were found ({said}). "
            f"Check that they are right and may do so: {advice}."
        )
    if isinstance(error, FileNotFoundError) or retries.names_no_bucket(error):
        return (
            f"{url}: there is no {bucket!r} ({said}). Create it, or check the name, the region "
            "and the address of the server."
        )
    endpoint = options.get("endpoint_url") or options.get("account_url")
    at = f" at {endpoint}" if endpoint else ""
    return (
        f"{url}: can't be written{at}: {said}. Check the address and the network; nothing was "
        "created."
    )


def _scheme(url: str) -> str:
    return url.partition("://")[0].rpartition("::")[2].lower()
