"""Path of `orbit.utils` for this class."""

from quintain.orbit.epoch_helper import EpochHelper as EpochHelper
