"""Config of the section `checkpoint_storage` of an experiment."""

import dataclasses
import json
import os
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from annotated_types import Ge, Gt, Le

from quintain import errors
from quintain.config import base_config

Count = Annotated[int, Ge(0)]
Secs = Annotated[float, Gt(0), Le(1e9)]

REMOTE_TYPES: Final = ("s3", "gs", "azure", "fsspec")
"""Kinds of storage that are no directories of this machine."""

ANSWER_SECS: Final = 60.0
"""Seconds within which an object store has to answer, if nothing else is said."""

_TIMEOUTS: Final = ("retry_timeout", "answer_timeout")
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "shared_fs": ("host_path", "storage_path", "container_path"),
    "directory": ("container_path", "storage_path"),
    "s3": ("bucket", "prefix", "endpoint_url", "options", *_TIMEOUTS),
    "gs": ("bucket", "prefix", "endpoint_url", "options", *_TIMEOUTS),
    "azure": ("container", "prefix", "account_url", "options", *_TIMEOUTS),
    "fsspec": ("url", "prefix", "options", *_TIMEOUTS),
}
_ALL_FIELDS: Final = tuple(sorted({name for names in _FIELDS.values() for name in names}))
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,221}")
_URL: Final = re.compile(r"[a-z][a-z0-9+.]*(::[a-z][a-z0-9+.]*)*://[^\x00-\x20\x7f]*")
_ENDPOINT: Final = re.compile(r"https?://[!-~]+")
_SECRET: Final = re.compile(
    r"secret|password|passwd|credential|token|connection_string|(^|_)(sas|pw)($|_)"
    r"|(^|_)key($|_id$)|access_?key|account_key|private_key|sig(nature)?$|cookie|auth",
    re.IGNORECASE,
)
_HARMLESS: Final = frozenset({"signature_version", "token_uri", "sse_kms_key_id"})
_TOKEN_SOURCES: Final = ("anon", "cache", "cloud", "google_default")
"""Values of `token` that tell gcsfs where to look for one."""
SECRET_ADVICE: Final = (
    "a secret here would be stored with the experiment: put it into the environment of the master "
    "and of the machines of trials, or into a profile of theirs (docs/how-to/storage.md)"
)


@dataclasses.dataclass
class CheckpointStorageConfig(base_config.Config):
    """Storage of checkpoints, and their retention."""

    type: Literal["shared_fs", "directory", "s3", "gs", "azure", "fsspec"] = "shared_fs"
    """Kind of storage: `shared_fs` and `directory` are directories, `s3`, `gs` and `azure` object
    stores, and `fsspec` is anything that fsspec has a file system for."""

    host_path: str | None = None
    """Directory of the checkpoints, with `type: shared_fs`. None takes the one in the home
    directory of the platform."""

    storage_path: str | None = None
    """Directory below `host_path` or `container_path`."""

    container_path: str | None = None
    """The directory, with `type: directory`."""

    bucket: str | None = None
    """The bucket, with `type: s3` and `gs`."""

    container: str | None = None
    """The container, with `type: azure`."""

    prefix: str | None = None
    """What the names of objects begin with, as a path; None for nothing."""

    url: str | None = None
    """Where, with `type: fsspec`: `sftp://host/directory`, say."""

    endpoint_url: str | None = None
    """Address of the server, with `type: s3` and `gs`; None for the provider's own."""

    account_url: str | None = None
    """Address of the account, with `type: azure`: `https://NAME.blob.core.windows.net`, or that of
    a server of your own, whose path is the account's name. None means what the environment says."""

    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    """What fsspec's file system is made with, as `{profile: NAME}` for S3; no secrets."""

    answer_timeout: Secs | None = None
    """Seconds within which an object store has to answer a call; one that sends or gets a file has
    a second more for each 16 KiB. None means `ANSWER_SECS`."""

    retry_timeout: Secs | None = None
    """Seconds for which a trial repeats calls that fail, before it is started again. None means
    1800."""

    save_experiment_best: Count = 0
    """Best checkpoints of the whole experiment to keep at its end."""

    save_trial_best: Count = 1
    """Best checkpoints of each trial to keep at the end of the experiment."""

    save_trial_latest: Count = 1
    """Newest checkpoints of each trial to keep at the end of the experiment."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields paths that are not allowed, secrets, and what does not belong to the type."""
        yield from self._check_remote() if self.type in REMOTE_TYPES else self._check_directory()
        allowed = _FIELDS[self.type]
        for name in _ALL_FIELDS:
            if getattr(self, name) and name not in allowed:
                yield name, f"has no meaning with type {self.type}, expected {', '.join(allowed)}."

    def _check_directory(self) -> Iterator[tuple[str, str]]:
        for name in ("host_path", "container_path"):
            path = getattr(self, name)
            if path is not None and not os.path.isabs(path):
                yield name, f"got {errors.show(path)}, expected an absolute path."
        if self.type == "shared_fs" and self.container_path and not self.host_path:
            yield "host_path", "missing; type shared_fs keeps checkpoints there."
        root = os.path.normpath(self._root or "/default")
        inside = os.path.normpath(self.directory("/default"))
        if inside != root and not inside.startswith(root.rstrip("/") + "/"):
            yield (
                "storage_path",
                f"got {errors.show(self.storage_path)}, expected a path below "
                f"{self._root or 'the home directory of the platform'}.",
            )

    def _check_remote(self) -> Iterator[tuple[str, str]]:
        name = {"azure": "container", "fsspec": "url"}.get(self.type, "bucket")
        given = getattr(self, name)
        if given is None:
            yield name, f"missing; type {self.type} needs it."
        elif name == "url":
            yield from self._check_url(given)
        elif not _BUCKET.fullmatch(given):
            yield (
                name,
                f"got {errors.show(given)}, expected a name of two or more letters, digits, `.`, "
                "`_` and `-`; what lies below it is the prefix.",
            )
        parts = (self.prefix or "").strip("/").split("/")
        if self.prefix and any(part in ("", ".", "..") or not part.isprintable() for part in parts):
            yield "prefix", f"got {errors.show(self.prefix)}, expected a path such as team/runs."
        for each in ("endpoint_url", "account_url"):
            if (address := getattr(self, each)) is not None:
                yield from _check_endpoint(each, address)
        for path in _find_secrets(self.options, "options"):
            yield path, f"{SECRET_ADVICE}."

    def _check_url(self, url: str) -> Iterator[tuple[str, str]]:
        if not _URL.fullmatch(url):
            yield "url", f"got {errors.show(url)}, expected one such as sftp://HOST/DIRECTORY."
        elif _has_password(url):
            yield "url", f"has a password in it; {SECRET_ADVICE}."
        elif "?" in url or "#" in url:
            yield "url", "has a `?` or `#` in it, expected a plain path; see options."

    def directory(self, default: str) -> str:
        """Returns the directory of the checkpoints, for the types that are directories."""
        root = self._root or default
        return os.path.join(root, self.storage_path) if self.storage_path else root

    def address(self, default: str) -> str:
        """Returns where checkpoints are: a directory, or JSON with a URL and fsspec's options.

        Example:
            >>> CheckpointStorageConfig(type="s3", bucket="b", prefix="/runs/").address("/home")
            '{"options": {}, "url": "s3://b/runs"}'
        """
        if self.type not in REMOTE_TYPES:
            return self.directory(default)
        options = dict(self.options)
        if self.endpoint_url:
            options["endpoint_url"] = self.endpoint_url
        if self.account_url:
            options["account_url"] = self.account_url
        scheme = "abfs" if self.type == "azure" else self.type
        root = self.url or f"{scheme}://{self.container or self.bucket}"
        path = (self.prefix or "").strip("/")
        return json.dumps(
            {"url": f"{root.rstrip('/')}/{path}" if path else root, "options": options},
            sort_keys=True,
        )

    @property
    def _root(self) -> str | None:
        return self.container_path if self.type == "directory" else self.host_path


def find_address(content: Mapping[str, Any], default: str) -> str:
    """Returns where an experiment keeps its checkpoints, though its config may be refused today."""
    storage = content.get("checkpoint_storage")
    given = storage if isinstance(storage, Mapping) else {}
    fields = {name: given[name] for name in ("type", *_ALL_FIELDS) if given.get(name)}
    options = fields.pop("options", None)
    config = CheckpointStorageConfig(options=dict(options) if isinstance(options, Mapping) else {})
    for name, value in fields.items():
        if isinstance(value, str):
            setattr(config, name, value)
    return config.address(default)


def find_timeouts(content: Mapping[str, Any]) -> tuple[float | None, ...]:
    """Returns `retry_timeout` and `answer_timeout`, though the config may be refused today."""
    given = content.get("checkpoint_storage")
    found = [given.get(name) if isinstance(given, Mapping) else None for name in _TIMEOUTS]
    return tuple(float(each) if isinstance(each, int | float) else None for each in found)


def _check_endpoint(name: str, address: str) -> Iterator[tuple[str, str]]:
    """Yields what is wrong with the address of a server."""
    if _has_password(address):
        yield name, f"has a name and a password in it; {SECRET_ADVICE}."
    elif "?" in address or "#" in address:
        yield name, f"has a `?` or `#` in it, expected https://HOST; {SECRET_ADVICE}."
    elif name == "account_url" and ".dfs." in address:
        blobs = address.replace(".dfs.", ".blob.")
        yield name, f"got {errors.show(address)}, expected the address of blobs, {blobs}."
    elif not _ENDPOINT.fullmatch(address) or not urllib.parse.urlsplit(address).hostname:
        yield name, f"got {errors.show(address)}, expected https://HOST or http://HOST."


def _has_password(url: str) -> bool:
    """Returns whether a URL has a password, or a token in the place of the user."""
    scheme, _, rest = url.partition("://")
    user, _, _ = rest.partition("/")[0].rpartition("@")
    return bool(user) and (":" in user or scheme.lower() in ("http", "https"))


def _find_secrets(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, below in value.items():
            text = str(name)
            is_secret = _SECRET.search(text) and text.lower() not in _HARMLESS
            is_source = text == "token" and below in _TOKEN_SOURCES
            if is_secret and not is_source and not isinstance(below, Mapping | bool | None):
                yield f"{path}.{text}"
            else:
                yield from _find_secrets(below, f"{path}.{text}")
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from _find_secrets(below, f"{path}[{index}]")
    elif isinstance(value, str) and "://" in value and _has_password(value):
        yield path
