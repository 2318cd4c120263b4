"""Path of `orbit.utils` for this class."""

from quintain.orbit.summary_manager import SummaryManagerInterface as SummaryManagerInterface
