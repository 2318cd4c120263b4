"""What may change when an experiment that has ended goes on."""

from typing import Any

from quintain import errors
from quintain.records.config import experiment_spec, searcher_config
from quintain.search import searcher
from quintain.search import space as space_lib


def check(former: experiment_spec.ExperimentSpec, config: experiment_spec.ExperimentSpec) -> None:
    """Checks that a search can go on with a changed config.

    Raises:
        StateError: If it can't.
    """
    is_single = isinstance(config.searcher, searcher_config.SingleConfig)
    old, new = former.as_dict(), config.as_dict()
    fixed = {
        "searcher.name": (former.searcher.name, config.searcher.name),
        "searcher.metric": (former.searcher.metric, config.searcher.metric),
        "reproducibility": (old["reproducibility"], new["reproducibility"]),
    }
    if not is_single:
        fixed["hyperparameters"] = (old["hyperparameters"], new["hyperparameters"])
    for path, (before, after) in fixed.items():
        if before != after:
            raise errors.StateError(
                f"{path}: an experiment can't go on with another value ({after!r} instead of "
                f"{before!r}); fork it."
            )


def draw_first(config: experiment_spec.ExperimentSpec, former: dict[str, Any]) -> dict[str, Any]:
    """Returns the hyperparameters of the one trial of a `single` search."""
    seed = config.reproducibility.experiment_seed
    if seed is None:
        return former
    space = space_lib.Space.parse(config.hyperparameters)
    return dict(space.sample(searcher.new_random(seed)))
