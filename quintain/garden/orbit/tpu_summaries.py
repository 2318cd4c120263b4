"""Path of `orbit.utils` for this class."""

from quintain.orbit.optional_summaries import OptionalSummariesFunction as OptionalSummariesFunction
