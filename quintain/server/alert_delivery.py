"""Delivers an alert: runs a command, or has a request sent to an address.

Both happen in a process of their own, with one deadline for all of it: an answer may come byte by
byte, and a name server may not answer, which no timeout of a socket bounds. For a request this file
is the program of that process. Nothing else is waited for: neither for what that process has
started, nor for its pipes, which others may keep open.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import urllib3

from quintain.client.home import home as home_lib
from quintain.records.config import experiment_sections
from quintain.server.security import own_commands
from quintain.terminal import printable

TIMEOUT_SECS: Final = 30.0
"""Longest time that a command or a request may take."""

PASSED: Final = frozenset({
    "HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "SSL_CERT_DIR", "SSL_CERT_FILE",
    "TMPDIR", "TZ", "USER",
    "ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY",
    "all_proxy", "https_proxy", "http_proxy", "no_proxy",
})  # fmt: skip
"""Variables of the master that commands get; those beside may hold secrets."""

PASSED_PREFIXES: Final = ("LC_", "QUINTAIN_ALERT_")
"""Beginnings of the names of further ones: the second is for what is meant for commands."""

FINAL_EXIT: Final = 3
"""Exit code if there is no use in trying again."""

_TRY_AGAIN: Final = frozenset({408, 425, 429})
_NEVER_AGAIN: Final = range(400, 500)
_LONGEST_SECS: Final = 120
"""Longest life, if the master is not there any more to end it."""

_KEPT_BYTES: Final = 4096
_READ_BYTES: Final = 2**16
_POLL_SECS: Final = 0.1
_KILL_SECS: Final = 1.0
_MAX_VARIABLE: Final = 10_000


class DeliveryError(Exception):
    """Nobody was told.

    Attributes:
        is_final: Whether there is no use in trying again.
    """

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final


def deliver(
    alert: experiment_sections.AlertConfig,
    report: Mapping[str, Any],
    home: home_lib.Home,
    *,
    give_up: threading.Event,
    timeout_secs: float = TIMEOUT_SECS,
) -> None:
    """Tells somebody once.

    Args:
        alert: Whom.
        report: What happened, as plain data.
        home: The home directory, in which a command runs.
        give_up: Ends it at once when set.
        timeout_secs: Longest time that it may take.

    Raises:
        DeliveryError: If it failed.
    """
    if alert.command is not None:
        arguments: Sequence[str] = ["/bin/sh", "-c", alert.command]
        environment, given = _build_environment(report, home), dict(report)
    else:
        # `-P`: what lies in the home directory is not imported.
        arguments = [sys.executable, "-P", "-m", "quintain.server.alert_delivery"]
        environment = own_commands.build_environment(home)
        given = {"webhook": alert.webhook, "report": report}
    try:
        with tempfile.TemporaryFile() as standard_input:
            standard_input.write(json.dumps(given, allow_nan=False).encode())
            standard_input.seek(0)
            process = subprocess.Popen(
                arguments,
                stdin=standard_input,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                env=environment,
                cwd=home.path,
                start_new_session=True,
            )
    except OSError as error:
        raise DeliveryError(f"it can't be started: {error}") from error
    output = _follow(process, time.monotonic() + timeout_secs, give_up)
    if process.returncode == 0:
        return
    if output is None:
        was_stopped = give_up.is_set()
        raise DeliveryError("stopped" if was_stopped else f"it took more than {timeout_secs:g} s")
    told = printable.clean(output.decode(errors="replace").strip("\0 \n"))
    if alert.command is not None:
        raise DeliveryError(f"it ended with {process.returncode}: {told}")
    raise DeliveryError(told, is_final=process.returncode == FINAL_EXIT)


def describe(alert: experiment_sections.AlertConfig) -> str:
    """Returns a name of an alert for the log, without what addresses may hold of secrets."""
    if alert.command is not None:
        return f"command {alert.command[:80]!r}"
    return f"webhook at {urllib3.util.parse_url(alert.webhook or '').host}"


def _follow(
    process: subprocess.Popen[bytes], deadline_secs: float, give_up: threading.Event
) -> bytes | None:
    """Waits for the end of a process; returns the end of its output, or None if it was killed."""
    assert process.stdout is not None
    kept = b""
    with process.stdout as output, selectors.DefaultSelector() as selector:
        os.set_blocking(output.fileno(), False)
        selector.register(output, selectors.EVENT_READ)
        while process.poll() is None:
            left_secs = deadline_secs - time.monotonic()
            if left_secs <= 0 or give_up.is_set():
                _kill(process)
                return None
            # It may have closed its output: then there is nothing to select, and this waits.
            if selector.select(min(left_secs, _POLL_SECS)):
                data = output.read(_READ_BYTES)
                kept = (kept + (data or b""))[-_KEPT_BYTES:]
                if data == b"":
                    selector.unregister(output)
        # What it wrote is in the pipe by now; what its descendants add is nobody's.
        return (kept + (output.read(_READ_BYTES) or b""))[-_KEPT_BYTES:]


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a process that was not waited for yet, with its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    # One that hangs in the kernel is waited for by `subprocess` when the next one is started.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_KILL_SECS)


def _build_environment(report: Mapping[str, Any], home: home_lib.Home) -> dict[str, str]:
    """Returns what a command gets: `experiment_id` as `QUINTAIN_EXPERIMENT_ID`, and so on."""
    passed = {
        name: value
        for name, value in os.environ.items()
        if name in PASSED or name.startswith(PASSED_PREFIXES)
    }
    told = {
        f"QUINTAIN_{name.upper()}": _to_text(value)[:_MAX_VARIABLE].replace("\0", "")
        for name, value in report.items()
    }
    return {**passed, **told, home_lib.HOME_VARIABLE: str(home.path)}


def _to_text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def post(address: str, report: Any) -> tuple[int, str]:
    """Sends a report; returns the exit code of this process, and why it was not taken.

    Args:
        address: Where to.
        report: Plain data.
    """
    try:
        with urllib3.PoolManager(retries=False) as pool:
            answer = pool.request(
                "POST",
                address,
                body=json.dumps(report).encode(),
                headers={"Content-Type": "application/json", "User-Agent": "quintain"},
                redirect=False,
                preload_content=False,
            )
            answer.close()
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        return 1, f"{type(error).__name__}: {error}"
    if answer.status < 300:
        return 0, ""
    is_final = answer.status in _NEVER_AGAIN and answer.status not in _TRY_AGAIN
    return FINAL_EXIT if is_final else 1, f"it answered {answer.status}"


def main() -> None:
    """Sends what standard input says: `{"webhook": ADDRESS, "report": ANYTHING}`."""
    signal.alarm(_LONGEST_SECS)
    given = json.load(sys.stdin)
    exit_code, message = post(given["webhook"], given["report"])
    sys.stdout.write(message)
    sys.exit(exit_code)


if __name__ == "__main__":
    main()
