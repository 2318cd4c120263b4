"""Path of `orbit.utils` for this class."""

from quintain.orbit.utils.summary_manager import SummaryManagerInterface as SummaryManagerInterface
