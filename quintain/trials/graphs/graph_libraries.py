"""Imports of trials made of graphs, for processes that are forked later.

Keras 2 is what `tf.layers` of TensorFlow 1 lives in; it is there if it is installed.
"""

import importlib
import importlib.util

from quintain.trials.graphs import tensorflow_trial  # noqa: F401 - it is imported for its own sake.

if importlib.util.find_spec("tf_keras") is not None:
    importlib.import_module("tf_keras.api._v1.keras")
