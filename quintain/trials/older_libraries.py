"""Imports what `older_keras` adds, so that processes that are copied find it imported."""

from quintain.trials import older_keras

older_keras.find_former()
