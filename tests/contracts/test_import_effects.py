"""Importing the package changes nothing in the process."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

_PROGRAM = """
import json, logging, os, signal, sys, threading, typing, warnings

def look():
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    return {
        "environment": dict(os.environ),
        "typing": sorted(vars(typing)),
        "filters": [str(one) for one in warnings.filters],
        "warnings": warnings.showwarning is former_show,
        "handlers": [str(one) for one in getattr(logging.root, "handlers")],
        "levels": {one.name: one.level for one in loggers if getattr(one, "level", 0)},
        "path": list(sys.path),
        "hooks": [str(one) for one in sys.path_hooks],
        "excepthook": sys.excepthook is sys.__excepthook__,
        "signals": [str(signal.getsignal(one)) for one in sorted(signal.valid_signals())],
        "threads": threading.active_count(),
    }

former_show = warnings.showwarning
finders, before = list(sys.meta_path), look()
import quintain
after, added = look(), [one for one in sys.meta_path if one not in finders]
import tensorflow as tf
is_imported = any(name.partition(".")[0] == "keras" for name in sys.modules)
print(json.dumps({
    "changed": [name for name in before if before[name] != after[name]],
    "finders": [type(one).__module__ for one in added],
    "specs": [type(tf.__spec__.loader).__name__, type(tf.keras.__spec__.loader).__name__],
    "is_whole": is_imported and "keras._tf_keras.keras" in sys.modules,
}))
"""


def test_importing_the_package_adds_one_finder_and_nothing_else():
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True
    )

    assert json.loads(done.stdout) == {
        "changed": [],
        "finders": ["quintain.reference.reference_imports"],
        "specs": ["SourceFileLoader", "SourceFileLoader"],
        "is_whole": True,
    }
