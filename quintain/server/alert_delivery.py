"""Tells somebody that an experiment has ended: by a command, or by a request to an address."""

import json
import os
import pathlib
import signal
import subprocess
from collections.abc import Mapping
from typing import Any, Final

import urllib3

from quintain.client import home as home_lib
from quintain.records import experiment_sections

TIMEOUT_SECS: Final = 30.0
"""Longest time that a command or an answer may take."""

_SHOWN_BYTES: Final = 500
_MAX_VARIABLE: Final = 10_000
_TRY_AGAIN: Final = frozenset({408, 425, 429})
_NEVER_AGAIN: Final = range(400, 500)


class DeliveryError(Exception):
    """Nobody was told.

    Attributes:
        is_final: Whether there is no use in trying again.
    """

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        """Stores what happened."""
        super().__init__(message)
        self.is_final = is_final


def deliver(
    alert: experiment_sections.AlertConfig,
    report: Mapping[str, Any],
    directory: pathlib.Path,
    *,
    timeout_secs: float = TIMEOUT_SECS,
) -> None:
    """Tells somebody once.

    Args:
        alert: Whom.
        report: What happened, as plain data.
        directory: The home directory, in which a command runs.
        timeout_secs: Longest time that it may take.

    Raises:
        DeliveryError: If it failed.
    """
    body = json.dumps(report, allow_nan=False).encode()
    if alert.command is not None:
        _run(alert.command, report, body, directory, timeout_secs)
    elif alert.webhook is not None:
        _post(alert.webhook, body, timeout_secs)


def describe(alert: experiment_sections.AlertConfig) -> str:
    """Returns a name of an alert for the log, without what addresses may hold of secrets."""
    if alert.command is not None:
        return f"command {alert.command[:80]!r}"
    return f"webhook at {urllib3.util.parse_url(alert.webhook or '').host}"


def _run(
    command: str,
    report: Mapping[str, Any],
    body: bytes,
    directory: pathlib.Path,
    timeout_secs: float,
) -> None:
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={
            **os.environ,
            **_to_variables(report),
            home_lib.HOME_VARIABLE: str(directory),
        },
        cwd=directory,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(body, timeout_secs)
    except subprocess.TimeoutExpired as error:
        # What the command has started goes with it.
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise DeliveryError(f"it took more than {timeout_secs:g} s") from error
    if process.returncode:
        shown = output[-_SHOWN_BYTES:].decode("utf-8", errors="replace").strip()
        raise DeliveryError(f"it ended with {process.returncode}: {shown}")


def _to_variables(report: Mapping[str, Any]) -> dict[str, str]:
    """Returns `experiment_id` as `QUINTAIN_EXPERIMENT_ID`, and so on."""
    return {
        f"QUINTAIN_{name.upper()}": _to_text(value)[:_MAX_VARIABLE].replace("\0", "")
        for name, value in report.items()
    }


def _to_text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _post(address: str, body: bytes, timeout_secs: float) -> None:
    try:
        with urllib3.PoolManager(retries=False, timeout=timeout_secs) as pool:
            answer = pool.request(
                "POST",
                address,
                body=body,
                headers={"Content-Type": "application/json", "User-Agent": "quintain"},
                redirect=False,
                preload_content=False,
            )
            answer.close()
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise DeliveryError(f"{type(error).__name__}: {error}") from error
    if answer.status >= 300:
        raise DeliveryError(
            f"it answered {answer.status}",
            is_final=answer.status in _NEVER_AGAIN and answer.status not in _TRY_AGAIN,
        )
