"""The module in which programs written for `orbit` look for this class."""

from quintain.orbit.epoch_helper import EpochHelper as EpochHelper
