"""The module in which programs written for `orbit` look for this class."""

from quintain.orbit.optional_summaries import OptionalSummariesFunction as OptionalSummariesFunction
