"""Builds the search that an experiment's config describes."""

import typing
from collections.abc import Callable
from typing import Any

import numpy as np

from quintain import errors
from quintain.records import experiment_config
from quintain.records import searcher_config as cfg
from quintain.search import (
    adaptive,
    asha,
    base_search,
    bayesian,
    halving,
    pbt,
    random_search,
    searcher,
)
from quintain.search import space as space_lib


def build_searcher(config: experiment_config.ExperimentConfig) -> searcher.Searcher:
    """Builds the search of an experiment, ready to start.

    Raises:
        ConfigError: If the hyperparameters are malformed, or the method can't search them.
    """
    space = space_lib.Space.parse(config.hyperparameters)
    seed = config.reproducibility.experiment_seed
    if seed is None:
        raise errors.ConfigError(
            "reproducibility.experiment_seed: got None; `experiment_config.parse` sets it."
        )
    method = build_method(config.searcher, space, searcher.new_random(seed))
    return searcher.Searcher(method, smaller_is_better=config.searcher.smaller_is_better)


def check(
    config: experiment_config.ExperimentConfig, locate: Callable[[str], str] | None = None
) -> None:
    """Checks that a config's hyperparameters can be searched by its method.

    Args:
        config: The config.
        locate: Returns the place of a dotted path, for messages.

    Raises:
        ConfigError: Listing all that is wrong.
    """
    with errors.located(locate):
        build_searcher(config)


def build_method(
    config: cfg.SearcherConfig, space: space_lib.Space, random: np.random.RandomState
) -> base_search.SearchMethod:
    """Builds a search method; its lengths are those of the config, in the config's unit.

    Args:
        config: The config of the method.
        space: The hyperparameters.
        random: Source of all random numbers.
    """
    fields: dict[str, Any] = {
        name: value
        for name, value in config.as_dict().items()
        if name not in cfg.SearcherConfig().as_dict() and name != "train_stragglers"
    }
    match config:
        case cfg.TpeConfig():
            return bayesian.TpeSearch(space, random, **fields)
        case cfg.SingleConfig():
            return random_search.RandomSearch(space, random, max_trials=1, **fields)
        case cfg.RandomConfig():
            return random_search.RandomSearch(space, random, **fields)
        case cfg.GridConfig():
            return random_search.GridSearch(space, random, **fields)
        case cfg.AdaptiveConfig():
            return adaptive.build_adaptive(space, random, **fields)
        case cfg.AdaptiveSimpleConfig():
            return adaptive.build_adaptive_simple(space, random, **fields)
        case cfg.SyncHalvingConfig():
            plan = halving.plan_by_budget(
                config.max_length, config.budget, config.divisor, config.num_rungs
            )
            return halving.HalvingSearch(space, random, plan)
        case cfg.AsyncHalvingConfig():
            build = asha.asha_class(stop_once=fields.pop("stop_once"))
            return typing.cast(base_search.SearchMethod, build(space, random, **fields))
        case cfg.AdaptiveAshaConfig():
            return adaptive.build_adaptive_asha(space, random, **fields)
        case cfg.PbtConfig():
            replace, explore = fields.pop("replace_function"), fields.pop("explore_function")
            return pbt.PbtSearch(space, random, **fields, **replace, **explore)
        case _:
            raise errors.ConfigError(f"searcher.name: got {config.name!r}, which can't be built.")
