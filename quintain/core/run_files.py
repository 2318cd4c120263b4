"""The files of a run that people read: `params.yaml`, and whose directory it is."""

import os
from typing import Any, Final

import tensorflow as tf

from quintain import errors
from quintain.core import checkpoints
