"""Settings of a trial's workloads, from the experiment's config."""

import dataclasses

from quintain.records.config import experiment_spec


@dataclasses.dataclass(frozen=True)
class TrialSettings:
    """Settings of a trial's workloads, from the experiment's config."""

    scheduling_unit: int
    """Most batches of a workload."""

    min_validation_period: int | None
    """Batches after which a trial is validated at the latest."""

    min_checkpoint_period: int | None
    """Batches after which a trial is saved at the latest."""

    checkpoint_policy: str
    """Which validations are followed by a checkpoint: `best`, `all` or `none`."""

    perform_initial_validation: bool
    """Whether trials are validated before they are trained."""

    max_restarts: int
    """How often a trial that fails is started again."""

    batches_per_unit: int
    """Batches that the lengths of the search method count."""

    smaller_is_better: bool
    """Whether smaller values of the searched metric are better."""

    @classmethod
    def from_config(cls, config: experiment_spec.ExperimentSpec) -> "TrialSettings":
        """Returns the settings of an experiment."""
        return cls(
            scheduling_unit=config.scheduling_unit,
            min_validation_period=config.min_validation_period,
            min_checkpoint_period=config.min_checkpoint_period,
            checkpoint_policy=config.checkpoint_policy,
            perform_initial_validation=config.perform_initial_validation,
            max_restarts=config.max_restarts,
            batches_per_unit=config.searcher.batches_per_unit,
            smaller_is_better=config.searcher.smaller_is_better,
        )
