"""Clients of object stores for fsspec, with their own retries turned off.

`retries` repeats calls that fail. What clients repeat by themselves takes minutes, says nothing,
and draws from Python's random numbers, which a trial must not miss; so it is turned off here, for
each store in its client's own way.
"""

import functools
import importlib
import inspect
import os
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, Final

_S3_CLIENT: Final = {
    "connect_timeout": 10,
    "read_timeout": 30,
    "retries": {"total_max_attempts": 1},
}
_GOOGLE_KEY_FILE: Final = "GOOGLE_APPLICATION_CREDENTIALS"
_AZURE_CONNECTION: Final = "AZURE_STORAGE_CONNECTION_STRING"
_AZURE_ACCOUNT: Final = (
    "account_name",
    "connection_string",
    "AZURE_STORAGE_ACCOUNT_NAME",
    _AZURE_CONNECTION,
)

EXTRAS: Final = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    "az": "azure",
    "abfs": "azure",
    "abfss": "azure",
}
"""The extra of this package that brings the client of a scheme."""


def open_client(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """Returns fsspec's file system of a URL, which nobody else has, and the path there.

    Args:
        url: The URL.
        options: What fsspec's file system is made with; for Azure, `account_url` as well.

    Raises:
        ImportError: If the package is missing.
        ValueError: If options and variables of the environment contradict each other; it, TypeError
            or KeyError, if fsspec or the client does not know what it got.
    """
    kind = url.partition("://")[0].lower()  # Of a chain, as `simplecache::s3`, fsspec knows more.
    makers: dict[str, Callable[[str, dict[str, Any]], tuple[Any, str]]] = {
        "s3": _open_amazon,
        "gs": _open_google,
        "azure": _open_azure,
    }
    return makers.get(EXTRAS.get(kind, ""), _open)(url, dict(options))


def _open(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    core = importlib.import_module("fsspec.core")
    system, path = core.url_to_fs(url, skip_instance_cache=True, **options)
    return system, str(path)


def _open_amazon(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    options["config_kwargs"] = {**_S3_CLIENT, **options.get("config_kwargs", {})}
    system, path = _open(url, options)
    system.retries = 1
    return system, path


def _open_google(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    """Opens gcsfs without what it tries for zonal buckets by another protocol, for a minute."""
    is_asked = "token" in options
    if os.environ.get(_GOOGLE_KEY_FILE) and not is_asked:
        # Otherwise a file that can't be read means to be nobody.
        options["token"] = "google_default"
    core = importlib.import_module("gcsfs.core")
    system = core.GCSFileSystem(skip_instance_cache=True, **options)
    if system.credentials.method == "anon" and system.on_google and not is_asked:
        kinds = importlib.import_module("google.auth.exceptions")
        raise kinds.DefaultCredentialsError("no credentials were found")
    for name, method in vars(core.GCSFileSystem).items():
        # What else is wrapped is made synchronous by it.
        if inspect.iscoroutinefunction(method) and inspect.unwrap(method) is not method:
            setattr(system, name, functools.partial(inspect.unwrap(method), system))
    return system, str(system._strip_protocol(url))


def _open_azure(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    account_url = options.pop("account_url", None)
    if account_url:
        options = {**_find_account(account_url.rstrip("/")), **options}
    try:
        system, path = _open(url, options)
    except ValueError as error:
        if any(options.get(name) or os.environ.get(name) for name in _AZURE_ACCOUNT):
            raise
        raise ValueError(
            "of which account is not known: give account_url, or set AZURE_STORAGE_ACCOUNT_NAME or "
            f"{_AZURE_CONNECTION} in the environment"
        ) from error
    found = system.service_client.primary_endpoint.rstrip("/")
    if account_url and found != account_url.rstrip("/"):
        raise ValueError(
            f"account_url is {account_url!r}, but {_AZURE_CONNECTION} in the environment names "
            f"{found!r}; leave out one of them"
        )
    system.service_client._config.retry_policy.total_retries = 0
    return system, path


def _find_account(account_url: str) -> dict[str, str]:
    """Returns adlfs' options for the address of an account, with what the environment has.

    The first label is the account's name at Azure, a path that of an emulator's; of another domain
    nothing is known. Keys go into a connection string: else adlfs knows Azure's own domains only.
    """
    parts = urllib.parse.urlsplit(account_url)
    path = parts.path.strip("/")
    name = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", "")
    if path:
        name = path
    elif ".blob." in parts.netloc:
        name = parts.netloc.partition(".")[0]
    secrets = {
        f"AccountName={name};AccountKey": os.environ.get("AZURE_STORAGE_ACCOUNT_KEY"),
        "SharedAccessSignature": os.environ.get("AZURE_STORAGE_SAS_TOKEN", "").lstrip("?"),
    }
    given = next((f"{field}={value}" for field, value in secrets.items() if value), None)
    if os.environ.get(_AZURE_CONNECTION):
        return {}
    if parts.scheme == "http" and given is None:
        raise ValueError(
            f"account_url is {account_url!r}, which needs AZURE_STORAGE_ACCOUNT_KEY or "
            "AZURE_STORAGE_SAS_TOKEN in the environment: other credentials are only for https://"
        )
    if given is not None:
        return {"connection_string": f"{given};BlobEndpoint={account_url}"}
    return {"account_name": name, "account_host": f"{parts.netloc}/{path}".rstrip("/")}
