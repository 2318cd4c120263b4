"""The module in which programs written for `orbit` look for this class."""

from quintain.orbit.summary_manager import SummaryManager as SummaryManager
