"""Reads the directories that `quintain train` writes, without TensorFlow and without trust."""
