"""Log output of commands."""

import logging
import sys
from typing import Final, TextIO

_THIRD_PARTY: Final = ("absl", "tensorflow", "py.warnings")
_SAMPLES: Final = "quintain.samples"
"""Logger of what a model makes of a few examples, which evaluations show."""


class _PlainFormatter(logging.Formatter):
    """`Warning: text` for warnings, the bare text otherwise."""

    def format(self, record: logging.LogRecord) -> str:
        """Formats one record."""
        text = super().format(record)
        return f"{record.levelname.capitalize()}: {text}" if record.levelno > logging.INFO else text


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to what standard error is at the moment: a live display puts itself in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one record."""
        self.stream = sys.stderr
        super().emit(record)


def set_up(*, is_verbose: bool, shows_samples: bool = False) -> None:
    """Shows the package's warnings on standard error, and with `is_verbose` all of the log.

    Args:
        is_verbose: Whether to show information and TensorFlow's own log as well.
        shows_samples: Whether to show what evaluations make of a few examples.
    """
    handler = _StderrHandler()
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
