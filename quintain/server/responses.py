"""Records as HTTP answers, and errors as answers that the client turns into errors again."""

import json
from collections.abc import Mapping
from typing import Any, Final

import fastapi
from fastapi import exceptions

from quintain import errors
from quintain.records import codec

_STATUS_CODES: Final[tuple[tuple[type[Exception], int], ...]] = (
    (errors.NotFoundError, 404),
    (errors.GoneError, 410),
    (errors.StateError, 409),
    (errors.ConfigError, 400),
    (errors.DataError, 400),
    (errors.RegistryError, 400),
    (errors.CheckpointError, 409),
    (errors.StoreError, 503),
)
"""The first class that an error belongs to decides."""

UNAUTHORIZED: Final = 401


def to_response(value: Any, status_code: int = 200) -> fastapi.Response:
    """Returns records, or any nest of them, as JSON."""
    text = json.dumps(codec.to_plain(value), allow_nan=False, separators=(",", ":"))
    return fastapi.Response(text, status_code=status_code, media_type="application/json")


def to_error(
    kind: str, message: str, status_code: int, headers: Mapping[str, str] | None = None
) -> fastapi.Response:
    """Returns an error as JSON.

    Args:
        kind: Name of the class of the error.
        message: What went wrong.
        status_code: The HTTP status.
        headers: Further headers.
    """
    answer = to_response({"error": {"kind": kind, "message": message}}, status_code)
    answer.headers.update(headers or {})
    return answer


def find_status(error: errors.QuintainError) -> int:
    """Returns the HTTP status of an error; 500 for those that no caller caused."""
    return next((code for kind, code in _STATUS_CODES if isinstance(error, kind)), 500)


def handle_error(_: fastapi.Request, error: Exception) -> fastapi.Response:
    """Answers a request that raised an error of this package."""
    assert isinstance(error, errors.QuintainError)
    return to_error(type(error).__name__, str(error), find_status(error))


def handle_bad_request(_: fastapi.Request, error: Exception) -> fastapi.Response:
    """Answers a request whose arguments have the wrong types."""
    assert isinstance(error, exceptions.RequestValidationError)
    problems = [
        f"{'.'.join(str(part) for part in problem['loc'][1:])}: got {problem.get('input')!r}, "
        f"{problem['msg']}"
        for problem in error.errors()
    ]
    return to_error("ConfigError", "\n".join(problems), 400)


def handle_http_error(_: fastapi.Request, error: Exception) -> fastapi.Response:
    """Answers a request to an address or with a method that there is not."""
    assert isinstance(error, exceptions.HTTPException) or hasattr(error, "status_code")
    status_code = int(getattr(error, "status_code", 500))
    kind = "NotFoundError" if status_code == 404 else "QuintainError"
    return to_error(kind, str(getattr(error, "detail", error)), status_code)
