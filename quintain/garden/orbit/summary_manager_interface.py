"""The module in which programs written for `orbit` look for this class."""

from quintain.orbit.utils.summary_manager import SummaryManagerInterface as SummaryManagerInterface
