"""Search space: the hyperparameters of an experiment, drawn at random or laid out as a grid.

Example:
    >>> space = Space.parse({
    ...     "units": {"type": "int", "minval": 8, "maxval": 64},
    ...     "learning_rate": {"type": "log", "base": 10, "minval": -4, "maxval": -2},
    ...     "dropout": 0.1,
    ... })
    >>> drawn = space.sample(np.random.RandomState(1))
    >>> sorted(drawn), drawn["dropout"], 8 <= drawn["units"] <= 64
    (['dropout', 'learning_rate', 'units'], 0.1, True)
"""

import collections
import dataclasses
import functools
import itertools
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from quintain import errors
from quintain.records.config import hyperparameter_config
from quintain.search import hyperparameters

NEAR_SHARE: Final = 0.5
"""Share of points that are drawn near the priors, which may be wrong.

Source: a prior beside a uniform distribution, Mallik et al., 2023
    (https://arxiv.org/abs/2306.12370).
"""

Hparams = dict[str, Any]
"""Values of hyperparameters by name; a nested space gives nested mappings."""


@dataclasses.dataclass(frozen=True)
class Dimension:
    """One hyperparameter in its place."""

    path: tuple[str, ...]
    """Its name, below the names of the mappings it is in."""

    hyperparameter: hyperparameters.Hyperparameter
    """What it may be."""

    when: Mapping[str, tuple[Any, ...]] = dataclasses.field(default_factory=dict)
    """Other hyperparameters, by dotted name, and the values with which this one is used."""

    prior: hyperparameter_config.PriorConfig | None = None
    """A user's guess of the best value."""

    def sample(self, random: np.random.RandomState, *, is_near: bool) -> Any:
        """Draws a value, near the guess if there is one and it is asked for."""
        if is_near and self.prior:
            center, confidence = self.prior.center, self.prior.confidence
            return self.hyperparameter.sample_near(center, confidence, random)
        return self.hyperparameter.sample(random)

    @property
    def name(self) -> str:
        """The dotted name."""
        return ".".join(self.path)


class Space:
    """All hyperparameters of an experiment, in the order of their names.

    The order decides which random numbers each one gets, and which one of a grid varies fastest
    (the last one).
    """

    def __init__(self, dimensions: Sequence[Dimension]) -> None:
        """Stores the hyperparameters, sorted by name at every level.

        Attributes:
            first_points: Values by dotted name, of one, several or all hyperparameters, that the
                next points that are drawn have.
        """
        self.dimensions = tuple(sorted(dimensions, key=lambda dimension: dimension.path))
        self.first_points: collections.deque[dict[str, Any]] = collections.deque()
        self._is_flat = not any(
            dimension.when or len(dimension.path) > 1 for dimension in self.dimensions
        )

    @classmethod
    def parse(cls, config: Mapping[str, Any], path: str = "hyperparameters") -> "Space":
        """Reads the `hyperparameters` of an experiment's config.

        A mapping with a `type` (`const`, `categorical`, `int`, `double`, `log`) is a
        hyperparameter, one without is a group of them; anything else is a constant. `when: {name:
        value or list of values}` makes a hyperparameter appear only together with these values.

        Args:
            config: The hyperparameters by name.
            path: Where they are in the config, for messages.

        Raises:
            ConfigError: Listing all that is wrong.
        """
        parser = _Parser(path)
        parser.read(config, ())
        parser.check_conditions()
        if parser.problems:
            raise errors.ConfigError.from_problems(parser.problems)
        return cls(parser.dimensions)

    def sample(self, random: np.random.RandomState) -> Hparams:
        """Draws all hyperparameters, in the order of their names.

        Unused ones are drawn as well and then left out, so that the others do not depend on them;
        and so are those that the next of `first_points` gives.
        """
        drawn = self.draw(random)
        if self.first_points:
            drawn |= self.first_points.popleft()
        return self._assemble([*drawn.values()])

    @functools.cached_property
    def centers(self) -> dict[str, Any]:
        """The values that users guess to be the best ones, by dotted name."""
        return {part.name: part.prior.center for part in self.dimensions if part.prior}

    def draw(self, random: np.random.RandomState) -> dict[str, Any]:
        """Draws values of all hyperparameters, by dotted name in the order of `dimensions`."""
        is_near = bool(self.centers) and random.random_sample() < NEAR_SHARE
        return {part.name: part.sample(random, is_near=is_near) for part in self.dimensions}

    def parse_points(self, points: Sequence[Mapping[str, Any]], path: str) -> list[dict[str, Any]]:
        """Returns points that a user chose, as values by dotted name.

        Args:
            points: Values by name, of groups in mappings or by dotted names.
            path: Where they are in the config, for messages.

        Raises:
            ConfigError: Listing unknown names, and values that are not in their ranges.
        """
        known = {part.name: part.hyperparameter for part in self.dimensions}
        problems: list[errors.Problem] = []
        parsed = []
        there = f" There are: {', '.join(known)}."
        for index, point in enumerate(points):
            values = {}
            for name, value in _flatten(point, known):
                try:
                    values[name] = known[name].accept(value)
                except KeyError:
                    near = errors.suggest(name, known)
                    message = f"unknown hyperparameter.{near or there}"
                    problems.append(errors.Problem(f"{path}[{index}].{name}", message))
                except ValueError as error:
                    message = f"got {errors.show(value)}, expected {error}."
                    problems.append(errors.Problem(f"{path}[{index}].{name}", message))
            parsed.append(values)
        if problems:
            raise errors.ConfigError.from_problems(problems)
        return parsed

    def flatten(self, hparams: Hparams) -> dict[str, Any]:
        """Returns the values of a point by dotted name; those that are not used are missing."""
        return dict(_flatten(hparams, {part.name for part in self.dimensions}))

    def accept_point(self, hparams: Hparams) -> tuple[Hparams, list[tuple[str, str]]]:
        """Returns a point that another space gave, and what does not fit into this one.

        Args:
            hparams: The point.

        Returns:
            The point with the values of this space, and names with what is wrong with them.
        """
        known = {part.name: part.hyperparameter for part in self.dimensions}
        values: dict[str, Any] = {}
        problems: list[tuple[str, str]] = []
        for name, value in _flatten(hparams, known):
            try:
                values[name] = known[name].accept(value)
            except KeyError:
                problems.append((name, f"got {errors.show(value)}, but there is no such name"))
            except ValueError as error:
                problems.append((name, f"got {errors.show(value)}, expected {error}"))
        used = self._find_used({name: values.get(name) for name in known})
        missing = [name for name in known if name in used and name not in values]
        for name in missing:
            if isinstance(known[name], hyperparameters.Const):
                values[name] = known[name].grid()[0]
            elif all(name != each for each, _ in problems):
                problems.append((name, "the trial has no value"))
        if problems:
            return {}, problems
        return self._assemble([values.get(name) for name in known]), []

    def grid(self) -> Iterator[Hparams]:
        """Yields the points of the grid; the last name varies fastest.

        Points that differ only in hyperparameters that are not used are one point.
        """
        seen = set()
        for values in itertools.product(*(part.hyperparameter.grid() for part in self.dimensions)):
            point = self._assemble(values)
            if not self._is_flat:
                key = repr(point)
                if key in seen:
                    continue
                seen.add(key)
            yield point

    def num_grid_points(self) -> int:
        """Returns an upper bound of the grid's size, exact without conditions up to 2 ** 63.

        Raises:
            ConfigError: If a range has no `count`.
        """
        problems, total = [], 1
        for dimension in self.dimensions:
            try:
                total = min(total * dimension.hyperparameter.num_points(), 2**63)
            except ValueError as error:
                problems.append(errors.Problem(f"hyperparameters.{dimension.name}", str(error)))
        if problems:
            raise errors.ConfigError.from_problems(problems)
        return total

    def explore(
        self,
        hparams: Hparams,
        random: np.random.RandomState,
        *,
        resample_probability: float,
        perturb_factor: float,
    ) -> Hparams:
        """Returns a neighbour of a point: each hyperparameter drawn anew, or moved a little."""
        values = []
        for dimension in self.dimensions:
            value = get(hparams, dimension.path)
            if value is None or random.random_sample() < resample_probability:
                values.append(dimension.hyperparameter.sample(random))
            else:
                values.append(dimension.hyperparameter.perturb(value, random, perturb_factor))
        return self._assemble(values)

    def assemble(self, drawn: Mapping[str, Any]) -> Hparams:
        """Returns a point from values that something else has drawn.

        Args:
            drawn: By dotted name: the value, or of a categorical hyperparameter the index of it.
                Constants are left out.
        """
        values = []
        for dimension in self.dimensions:
            match dimension.hyperparameter:
                case hyperparameters.Const(val):
                    values.append(val)
                case hyperparameters.Categorical(vals):
                    values.append(vals[int(drawn[dimension.name])])
                case _:
                    values.append(drawn[dimension.name])
        return self._assemble(values)

    def _assemble(self, values: Sequence[Any]) -> Hparams:
        if self._is_flat:
            return {
                part.path[0]: value for part, value in zip(self.dimensions, values, strict=True)
            }
        by_name = {part.name: value for part, value in zip(self.dimensions, values, strict=True)}
        used = self._find_used(by_name)
        hparams: Hparams = {}
        for dimension in self.dimensions:
            group = hparams
            for name in dimension.path[:-1]:
                group = group.setdefault(name, {})
            if dimension.name in used:
                group[dimension.path[-1]] = by_name[dimension.name]
        return hparams

    def _find_used(self, by_name: Mapping[str, Any]) -> set[str]:
        """Returns the names whose conditions hold; a condition on an unused one does not hold."""
        used = set(by_name)
        while True:
            unused = {
                part.name
                for part in self.dimensions
                if part.name in used
                and any(
                    name not in used or by_name[name] not in allowed
                    for name, allowed in part.when.items()
                )
            }
            if not unused:
                return used
            used -= unused


def _flatten(
    values: Mapping[str, Any], known: Container[str], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yields the values of a point by dotted name."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value and name not in known:
            yield from _flatten(value, known, f"{name}.")
        else:
            yield name, value


def get(hparams: Mapping[str, Any], path: Sequence[str]) -> Any:
    """Returns the value at a path, or None if there is none."""
    value: Any = hparams
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    return value


class _Parser:
    """Reads hyperparameters and gathers what is wrong with them."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.dimensions: list[Dimension] = []
        self.problems: list[errors.Problem] = []

    def read(self, config: Any, path: tuple[str, ...]) -> None:
        """Reads a group of hyperparameters."""
        if not isinstance(config, Mapping):
            self._report(path, f"got {errors.show(config)}, expected a mapping of hyperparameters.")
            return
        for name, value in config.items():
            here = (*path, name)
            if not isinstance(value, Mapping) or not value:
                self.dimensions.append(Dimension(here, hyperparameters.Const(value)))
            elif "type" not in value:
                self.read(value, here)
            else:
                self._read_one(dict(value), here)

    def check_conditions(self) -> None:
        """Checks that names are unique, and that conditions name others that there are."""
        known: dict[str, tuple[str, ...]] = {}
        for dimension in self.dimensions:
            if known.setdefault(dimension.name, dimension.path) != dimension.path:
                self._report(dimension.path, "given twice: in a group, and with dots in its name.")
        for dimension in self.dimensions:
            for name in dimension.when:
                if name not in known or name == dimension.name:
                    self._report(
                        (*dimension.path, "when"),
                        f"got {errors.show(name)}, expected the name of another hyperparameter."
                        f"{errors.suggest(name, known)}",
                    )

    def _report(self, path: Sequence[str], message: str) -> None:
        self.problems.append(errors.Problem(".".join([self.root, *path]), message))

    def _read_one(self, config: dict[str, Any], path: tuple[str, ...]) -> None:
        when = self._read_when(config.pop("when", {}), path)
        try:
            parsed = hyperparameter_config.parse(config)
        except errors.ConfigError as error:
            self.problems += [
                dataclasses.replace(problem, path=".".join([self.root, *path, problem.path]))
                for problem in error.problems
            ]
            return
        fields = {name: getattr(parsed, name) for name in parsed.as_dict()}
        prior = fields.pop("prior", None)
        hyperparameter = _KINDS[type(parsed)](**fields)
        if prior:
            try:
                prior.center = hyperparameter.accept(prior.center)
            except ValueError as error:
                message = f"got {errors.show(prior.center)}, expected {error}."
                self._report((*path, "prior", "center"), message)
        self.dimensions.append(Dimension(path, hyperparameter, when, prior))

    def _read_when(self, config: Any, path: tuple[str, ...]) -> dict[str, tuple[Any, ...]]:
        if not isinstance(config, Mapping):
            self._report(
                (*path, "when"), f"got {errors.show(config)}, expected {{name: value or values}}."
            )
            return {}
        return {
            name: tuple(value) if isinstance(value, list | tuple) else (value,)
            for name, value in config.items()
        }


_KINDS: Final[dict[type[hyperparameter_config.HyperparameterConfig], Any]] = {
    hyperparameter_config.ConstConfig: hyperparameters.Const,
    hyperparameter_config.CategoricalConfig: hyperparameters.Categorical,
    hyperparameter_config.IntConfig: hyperparameters.Int,
    hyperparameter_config.DoubleConfig: hyperparameters.Double,
    hyperparameter_config.LogConfig: hyperparameters.Log,
}
