"""Process that sends one POST for an alert, and writes why it was not taken.

An answer may come byte by byte, and a name server may not answer: no timeout of a socket bounds
that. Who starts this process ends it at a deadline of its own.
"""

import json
import signal
import sys
from typing import Any, Final

import urllib3

FINAL_EXIT: Final = 3
"""Exit code if there is no use in trying again."""

_TRY_AGAIN: Final = frozenset({408, 425, 429})
_NEVER_AGAIN: Final = range(400, 500)
_LONGEST_SECS: Final = 120
"""Longest life, if the master is not there any more to end it."""


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
