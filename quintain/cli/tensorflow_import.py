"""Imports TensorFlow with as much of its own log as the command shows."""

import logging
import sys

from quintain.process import start_up


def import_quietly() -> None:
    """Imports TensorFlow and Keras, without their lines unless the command shows its log."""
    if "tensorflow" in sys.modules:
        return
    is_verbose = logging.getLogger("quintain").isEnabledFor(logging.INFO)
    with start_up.quiet_imports(shows_log=is_verbose):
        import keras  # noqa: F401 - imported here because it writes as well
        import tensorflow as tf

    tf.get_logger().setLevel("INFO" if is_verbose else "ERROR")
    logging.getLogger("absl").setLevel("INFO" if is_verbose else "ERROR")
