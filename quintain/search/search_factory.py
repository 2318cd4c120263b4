"""Factory of the search that an experiment's config describes."""

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from quintain import errors
from quintain.records.config import experiment_spec, searcher_config
from quintain.search import auto, base_search, replication, searcher
from quintain.search import space as space_lib

Build = Callable[..., base_search.SearchMethod]
"""Builds a search method from the space, a source of random numbers, and the config's fields."""


def build_searcher(config: experiment_spec.ExperimentSpec) -> searcher.Searcher:
    """Builds the search of an experiment, ready to start.

    Raises:
        ConfigError: If the hyperparameters are malformed, or the method can't search them.
    """
    build = functools.partial(_build_first, config)
    replicate, own = config.searcher.replicate, _leave_shared_out(config.searcher)
    if replicate is None or not replicate.top:
        method = build(own)
    else:
        method = replication.build(own, build, _find_seeds(config))
    return searcher.Searcher(
        method,
        smaller_is_better=config.searcher.smaller_is_better,
        num_inherited=len(config.searcher.inherited),
    )


def settle(config: experiment_spec.ExperimentSpec) -> experiment_spec.ExperimentSpec:
    """Returns the config of a new search: its method, and whether finalists are replicated.

    Raises:
        ConfigError: If the hyperparameters are malformed, or the method can't search them.
    """
    config = auto.settle(config)
    own = _leave_shared_out(config.searcher)
    return replication.settle(config, own, functools.partial(_build_first, config))


def _leave_shared_out(config: searcher_config.SearcherConfig) -> searcher_config.SearcherConfig:
    """Returns the config of a search without the trials that it shares with another one."""
    if not config.inherited or not hasattr(config, "max_trials"):
        return config
    return config.replace(max_trials=config.max_trials - len(config.inherited), inherited=[])


def _build_first(
    config: experiment_spec.ExperimentSpec, method: searcher_config.SearcherConfig
) -> base_search.SearchMethod:
    """Builds a method, or one like it, for the hyperparameters of an experiment."""
    space = space_lib.Space.parse(config.hyperparameters)
    points = space.parse_points(method.initial_points, "searcher.initial_points")
    is_new = bool(space.centers) and not config.searcher.inherited
    space.first_points.extend([*points, space.centers] if is_new else points)
    return build_method(method, space, searcher.new_random(*_find_seeds(config)))


def _find_seeds(config: experiment_spec.ExperimentSpec) -> list[int]:
    """Returns the seed of a search; one with earlier trials does not propose what these did."""
    seed = config.reproducibility.experiment_seed
    if seed is None:
        raise errors.ConfigError(
            "reproducibility.experiment_seed: got None; `experiment_spec.parse` sets it."
        )
    num_inherited, learn_from = len(config.searcher.inherited), config.searcher.learn_from
    return [seed, num_inherited, *learn_from] if num_inherited or learn_from else [seed]


def check(
    config: experiment_spec.ExperimentSpec, locate: Callable[[str], str] | None = None
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
    config: searcher_config.SearcherConfig, space: space_lib.Space, random: np.random.RandomState
) -> base_search.SearchMethod:
    """Builds a search method; its lengths are those of the config, in the config's unit.

    Fields of sections of the config are arguments like all others.

    Args:
        config: The config of the method.
        space: The hyperparameters.
        random: Source of all random numbers.
    """
    shared = searcher_config.SearcherConfig().as_dict()
    arguments: dict[str, Any] = {}
    for name, value in config.as_dict().items():
        if name not in shared:
            arguments |= value if isinstance(value, Mapping) else {name: value}
    module, _, name = config.METHOD.partition(":")
    build: Build = getattr(importlib.import_module(f"quintain.search.{module}"), name)
    return build(space, random, **arguments)
