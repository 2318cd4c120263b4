"""Experiments as the store keeps them."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import TypedDict

from quintain.records import team
from quintain.records.rows import states


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One search over hyperparameters."""

    id: int
    state: states.ExperimentState
    config: dict[str, Any]
    """The complete config, as plain data."""

    original_config: str
    """The YAML text as the user wrote it."""

    model_dir: str
    """Directory with the copy of the user's code that the store keeps."""

    description: str = ""
    """The user's words for it."""

    labels: tuple[str, ...] = ()
    """Sorted labels."""

    progress: float = 0.0
    """Part of the search that is done, from 0 to 1."""

    start_time: float = 0.0
    """Seconds since the epoch."""

    end_time: float | None = None
    """Seconds since the epoch, or None while it is not over."""

    is_archived: bool = False
    """Whether lists leave it out."""

    parent_id: int | None = None
    """Experiment that it was forked from."""

    reason: str = ""
    """Why it ended, if not because the search was over."""

    @property
    def project(self) -> str:
        """The project that its config names."""
        return str(self.config.get("project") or team.DEFAULT_PROJECT)


class Changes(TypedDict, total=False):
    """Settings of an experiment that may change while it runs, or later."""

    description: str
    """The user's words for it."""

    labels: Sequence[str]
    weight: float
    """Its share of the slots."""

    max_slots: int
    """Most slots that it may hold; 0 for no limit."""

    priority: int
    """1 to 99; smaller numbers are served first."""

    max_trials: int
    """More trials than before; a search that was over goes on."""

    checkpoint_storage: Mapping[str, int]
    """New `save_experiment_best`, `save_trial_best`, `save_trial_latest`; of an ended experiment,
    what need not be kept any more is deleted."""


class DamagedExperiment(Experiment):
    """Placeholder of an experiment whose row in the database can't be read."""
