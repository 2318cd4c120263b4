"""Imports of every Keras trial, for processes that are forked later.

`deferred_imports` puts these parts off, which is right for a process that serves itself alone. Two
tables of TensorFlow's own are made here as well, each when it is first asked: that of kernels, and,
for the first name that is no operation's, one of all operations.
"""

import tensorflow as tf
from keras.src.trainers.data_adapters import array_slicing
from tensorflow.python.framework import kernels, op_def_registry

from quintain.trials.older import keras2_names

dir(array_slicing)
dir(tf.compat.v2)
keras2_names.find_former()
op_def_registry.get("NoOperation")
kernels.get_registered_kernels_for_op("NoOp")
