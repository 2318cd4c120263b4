"""Imports the package part by part, and writes what each part changed and read."""

import json
import logging
import os
import pathlib
import signal
import sys
import threading
import typing
import warnings


def look():
    """Returns what importing could change in a process."""
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    return {
        "environment": dict(os.environ),
        "typing": sorted(vars(typing)),
        "filters": [str(one) for one in warnings.filters],
        "warnings": warnings.showwarning is former_show,
        "handlers": [str(one) for one in logging.root.handlers],
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

is_whole = {"keras", "keras._tf_keras.keras"} <= sys.modules.keys()
specs = [type(tf.__spec__.loader).__name__, type(tf.keras.__spec__.loader).__name__]  # noqa: TID251

import random

import numpy as np

states = repr((random.getstate(), np.random.get_state()))
import quintain.core.train_lib

root = str(pathlib.Path(quintain.__file__).parent)
files = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
texts = [pathlib.Path(file).read_text("utf-8") for file in files if file.startswith(root)]

import quintain.garden.common.registry_imports

print(
    json.dumps(
        {
            "changed": [name for name in before if before[name] != after[name]],
            "finders": [type(one).__module__ for one in added],
            "specs": specs,
            "is_whole": is_whole,
            "num_files": len(texts),
            "num_lines": sum(text.count("\n") for text in texts),
            "has_garden": "quintain.garden.nlp.layers.mixing" in sys.modules,
            "drew_random": repr((random.getstate(), np.random.get_state())) != states,
        }
    )
)
