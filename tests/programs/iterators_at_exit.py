"""Holds an iterator to its end, and says what threads there are when the last of it is done."""

import atexit
import json
import threading

atexit.register(lambda: print(json.dumps([each.name for each in threading.enumerate()])))

import tensorflow as tf

from quintain.orbit import iterators

kept = [iterators.create(tf.data.Dataset.range(3).shuffle(3)) for _ in range(3)]
kept.append(kept[0])
del kept[1]
