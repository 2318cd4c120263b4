"""What the command shows of the package's log."""

import logging
import sys
from typing import Final

_THIRD_PARTY: Final = ("absl", "tensorflow", "py.warnings")
_SAMPLES: Final = "quintain.samples"
"""Logger of what a model makes of a few examples, which evaluations show."""


class _PlainFormatter(logging.Formatter):
    """`Warning: text` for warnings, the bare text otherwise."""

    def format(self, record: logging.LogRecord) -> str:
        """Formats one record."""
        text = super().format(record)
        return f"{record.levelname.capitalize()}: {text}" if record.levelno > logging.INFO else text


def set_up(
    *, is_verbose: bool, show: logging.Handler | None = None, shows_samples: bool = False
) -> None:
    """Shows the package's warnings on standard error, and with `is_verbose` all of the log.

    Args:
        is_verbose: Whether to show information and TensorFlow's own log as well.
        show: Where to show it; standard error if None.
        shows_samples: Whether to show what evaluations make of a few examples.
    """
    handler = show or logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
        if is_verbose
        else _PlainFormatter("%(message)s")
    )
    package = logging.getLogger("quintain")
    package.handlers[:] = [handler]
    package.propagate = False
    package.setLevel(logging.INFO if is_verbose else logging.WARNING)
    samples = logging.getLogger(_SAMPLES)
    samples.setLevel(logging.INFO if shows_samples else logging.NOTSET)
    for name in _THIRD_PARTY:
        logging.getLogger(name).handlers[:] = [handler if is_verbose else logging.NullHandler()]
        logging.getLogger(name).propagate = False
