"""Answers of a master: their data, or the errors that it raised."""

import json
from typing import Any, Final

from quintain import errors

_KINDS_BY_STATUS: Final[dict[int, type[errors.QuintainError]]] = {
    400: errors.ConfigError,
    401: errors.UnauthorizedError,
    403: errors.UnauthorizedError,
    404: errors.NotFoundError,
    409: errors.StateError,
    410: errors.GoneError,
    422: errors.ConfigError,
}


def read(status: int, data: bytes) -> Any:
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
