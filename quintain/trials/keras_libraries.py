"""Imports what every Keras trial asks for, so that processes that are copied find it imported.

`deferred_imports` puts these parts off, which is right for a process that serves itself alone.
"""

from keras.src.trainers.data_adapters import array_slicing

from quintain.trials import older_keras

dir(array_slicing)
older_keras.find_former()
