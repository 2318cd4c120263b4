"""Opens file systems of fsspec, and checks that they can be used, in words that help."""

import importlib
import json
import uuid
from collections.abc import Mapping
from typing import Any, Final

from quintain import errors
from quintain.storage import retries

_OBJECT_STORES: Final = frozenset(
    {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "memory"}
)
_EXTRAS: Final = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    "az": "azure",
    "abfs": "azure",
    "abfss": "azure",
}
_CREDENTIALS: Final = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, in the environment of "
    "the master and of the machines of trials, or give the machines a role",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS in the environment of the master and of the machines "
    "of trials, or give the machines a service account",
    "azure": "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or "
    "AZURE_STORAGE_CONNECTION_STRING, in the environment of the master and of the machines of "
    "trials",
}
_S3_CLIENT: Final = {
    "connect_timeout": 10,
    "read_timeout": 30,
    # `retries` does it, without Python's random numbers, which botocore's pauses use up.
    "retries": {"total_max_attempts": 1},
}

_PROBE_SECS: Final = 30.0
"""An empty file that takes longer will never be there."""


def is_object_store(url: str) -> bool:
    """Whether a file system has no directories that would have to be made."""
    return _scheme(url) in _OBJECT_STORES


def open_system(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """Returns fsspec's file system of a URL, and the path there.

    Raises:
        ConfigError: If it is not installed or not known, or does not take the options.
    """
    kind = _scheme(url)
    given: dict[str, Any] = dict(json.loads(json.dumps(dict(options))))
    if kind in ("s3", "s3a"):
        given["config_kwargs"] = {**_S3_CLIENT, **given.get("config_kwargs", {})}
    try:
        core = importlib.import_module("fsspec.core")
        system, path = core.url_to_fs(url, skip_instance_cache=True, **given)
    except ImportError as error:
        extra = _EXTRAS.get(kind, "remote")
        raise errors.ConfigError(
            f"{url}: the package for {kind}:// is not installed ({error}): pip install "
            f'"quintain[{extra}]", on the machines of trials as well.'
        ) from error
    except (ValueError, TypeError, KeyError) as error:
        raise errors.ConfigError(f"{url}: can't be opened: {retries.describe(error)}.") from error
    return system, str(path)


def check(url: str, options: Mapping[str, Any], *, patience_secs: float) -> None:
    """Checks that files can be written, read and deleted below a URL, by one that has no content.

    Args:
        url: Where.
        options: What fsspec's file system is made with.
        patience_secs: How long it is waited for if it does not answer.

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
        advice = _CREDENTIALS.get(_EXTRAS.get(kind, ""), "check the credentials of its client")
        return (
            f"{url}: may not be read and written with the credentials that were found ({said}). "
            f"Check that they are right and may do so: {advice}."
        )
    if isinstance(error, FileNotFoundError):
        return (
            f"{url}: there is no {bucket!r} ({said}). Create the bucket, or check its name, region "
            "and endpoint."
        )
    endpoint = options.get("endpoint_url")
    at = f" at {endpoint}" if endpoint else ""
    return (
        f"{url}: can't be written{at}: {said}. Check the address and the network; nothing was "
        "created."
    )


def _scheme(url: str) -> str:
    return url.partition("://")[0].rpartition("::")[2].lower()
