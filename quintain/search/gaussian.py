"""Sampler of Optuna that proposes points by a Gaussian process with noise.

Source:
    Expected improvement: Jones et al., 1998 (https://doi.org/10.1023/A:1008306431147).
    Its logarithm: Ament et al., 2023 (https://arxiv.org/abs/2310.20708).
    Points at work at their predicted result: Ginsbourger et al., 2010
    (https://doi.org/10.1007/978-3-642-10701-6_6).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import optuna
from optuna import distributions as optuna_distributions
from typing_extensions import override

MAX_POINTS: Final = 200
"""Results that the process is fitted to: the best ones, if there are more."""

_NUM_DRAWN: Final = 512
_NUM_CENTRES: Final = 8
_NUM_NEAR: Final = 48
_STEPS: Final = (0.2, 0.1, 0.03)
"""Distances of candidates from good ones, in parts of a range, one round each."""

_NUM_ITERATIONS: Final = 20
_MANY_POINTS: Final = 64
"""Results above which the parameters, which change little then, take half of the iterations."""

_erfc = np.frompyfunc(math.erfc, 1, 1)


class GaussianSampler(optuna.samplers.BaseSampler):
    """Proposes the point with the largest expected improvement.

    The kernel is a Matérn 5/2 with a length for each hyperparameter; lengths, signal and noise have
    the largest posterior probability. Improvement counts from the best predicted result, not from
    the best one that was measured, which is the luckiest of several. Failures count as the worst
    result.
    """

    def __init__(self, seed: int, num_startup_trials: int) -> None:
        """Stores how many trials are drawn at random before the process is used.

        Args:
            seed: Seed of all random numbers.
            num_startup_trials: Trials with a result.
        """
        self._random = np.random.RandomState(seed)
        self._independent = optuna.samplers.RandomSampler(seed=seed)
        self._num_startup_trials = num_startup_trials
        self._parameters: np.ndarray | None = None

    @override
    def infer_relative_search_space(
        self, study: optuna.Study, trial: optuna.trial.FrozenTrial
    ) -> dict[str, optuna_distributions.BaseDistribution]:
        del trial
        return optuna.search_space.intersection_search_space(study.get_trials(deepcopy=False))

    @override
    def sample_independent(
        self,
        study: optuna.Study,
        trial: optuna.trial.FrozenTrial,
        param_name: str,
        param_distribution: optuna_distributions.BaseDistribution,
    ) -> Any:
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    @override
    def sample_relative(
        self,
        study: optuna.Study,
        trial: optuna.trial.FrozenTrial,
        search_space: dict[str, optuna_distributions.BaseDistribution],
    ) -> dict[str, Any]:
        states = optuna.trial.TrialState
        trials = study.get_trials(deepcopy=False)
        done = [one for one in trials if one.state is states.COMPLETE]
        if len(done) < self._num_startup_trials or not search_space:
            return {}
        worst = max(one.values[0] for one in done)
        done += [one for one in trials if one.state is states.FAIL]
        results = np.array([one.values[0] if one.values else worst for one in done])
        kept = np.sort(np.argsort(results, kind="stable")[:MAX_POINTS])
        space = _Cube(search_space)
        points = space.enter([done[index].params for index in kept])
        at_work = [one for one in trials if one.state is states.RUNNING and one != trial]
        process = _Process(space, points, _warp(results[kept]))
        self._parameters = process.fit(self._parameters)
        process.assume(space.enter([one.params for one in at_work if one.params]))
        return space.leave(self._choose(space, process))

    def _choose(self, space: "_Cube", process: "_Process") -> np.ndarray:
        """Returns the best of many candidates, drawn everywhere and then near the best so far."""
        candidates = space.draw(self._random, _NUM_DRAWN)
        means, _ = process.predict(process.points)
        order = np.argsort(means, kind="stable")
        incumbent = means[order[0]]
        centres = process.points[order[:_NUM_CENTRES]]
        found = process.improve(candidates, incumbent)
        for step in _STEPS:
            near = space.move(self._random, np.repeat(centres, _NUM_NEAR, axis=0), step)
            candidates = np.concatenate([candidates, near])
            found = np.concatenate([found, process.improve(near, incumbent)])
            centres = candidates[np.argsort(-found, kind="stable")[:_NUM_CENTRES]]
        best: np.ndarray = centres[0]
        return best


class _Cube:
    """Hyperparameters as numbers from 0 to 1, and categories as their indices."""

    def __init__(self, space: Mapping[str, optuna_distributions.BaseDistribution]) -> None:
        self._space = space
        self.is_category = np.array(
            [
                isinstance(part, optuna_distributions.CategoricalDistribution)
                for part in space.values()
            ]
        )

    def enter(self, params: Sequence[Mapping[str, Any]]) -> np.ndarray:
        """Returns a row for each point."""
        rows = np.zeros((len(params), len(self._space)))
        for column, (name, part) in enumerate(self._space.items()):
            rows[:, column] = self._to_unit(part, np.array([point[name] for point in params]))
        return rows

    def leave(self, point: np.ndarray) -> dict[str, Any]:
        """Returns the values of a row."""
        return {
            name: self._to_value(part, float(place))
            for (name, part), place in zip(self._space.items(), point, strict=True)
        }

    def draw(self, random: np.random.RandomState, count: int) -> np.ndarray:
        """Draws points everywhere."""
        return self._snap(random.random_sample((count, len(self._space))), is_drawn=True)

    def move(self, random: np.random.RandomState, points: np.ndarray, step: float) -> np.ndarray:
        """Returns neighbours, which differ in at least one hyperparameter."""
        num = len(self._space)
        is_moved = random.random_sample(points.shape) < 1 / num
        is_moved[np.arange(len(points)), random.randint(num, size=len(points))] = True
        moved = points + step * random.standard_normal(points.shape)
        moved = np.where(self.is_category, points, self._snap(np.clip(moved, 0, 1)))
        drawn = self.draw(random, len(points))
        return np.where(is_moved, np.where(self.is_category, drawn, moved), points)

    def _snap(self, places: np.ndarray, *, is_drawn: bool = False) -> np.ndarray:
        """Returns the nearest places that there are; categories from numbers below 1 if drawn."""
        snapped = places.copy()
        for column, part in enumerate(self._space.values()):
            match part:
                case optuna_distributions.CategoricalDistribution(choices=choices):
                    if is_drawn:
                        snapped[:, column] = np.floor(places[:, column] * len(choices))
                case optuna_distributions.IntDistribution(low=low, high=high):
                    width = high - low
                    if is_drawn:
                        whole = np.floor(places[:, column] * (width + 1))
                    else:
                        whole = np.round(places[:, column] * width)
                    snapped[:, column] = whole / width
        return snapped

    def _to_unit(
        self, part: optuna_distributions.BaseDistribution, values: np.ndarray
    ) -> np.ndarray:
        low, high = _bounds(part)
        if isinstance(part, optuna_distributions.CategoricalDistribution):
            return values
        scaled = np.log(values) if _is_log(part) else values
        return (scaled - low) / (high - low)

    def _to_value(self, part: Any, place: float) -> Any:
        low, high = _bounds(part)
        match part:
            case optuna_distributions.CategoricalDistribution(choices=choices):
                return choices[round(place)]
            case optuna_distributions.IntDistribution():
                return round(low + place * (high - low))
        scaled = low + place * (high - low)
        value = math.exp(scaled) if _is_log(part) else scaled
        return min(max(value, part.low), part.high)


class _Process:
    """Gaussian process over points of a cube."""

    def __init__(self, cube: _Cube, points: np.ndarray, values: np.ndarray) -> None:
        self._is_category = cube.is_category
        self.points = points
        self._values = values
        self._parameters = np.zeros(0)
        self._inverse = self._weights = np.zeros(0)

    def fit(self, parameters: np.ndarray | None) -> np.ndarray:
        """Finds the most probable logarithms of lengths, signal and noise by Rprop.

        They are rounded, so that the last bit of a sum does not decide about a proposal.

        Args:
            parameters: Those of the process before; None for the middle of what is expected.
        """
        num = self.points.shape[1]
        middle = np.array([math.log(0.5 * math.sqrt(num))] * num + [0.0, -3.0])
        width = np.array([1.0] * num + [1.0, 1.5])
        now = middle if parameters is None or len(parameters) != len(middle) else parameters
        squares = self._squares(self.points, self.points)
        step, former = np.full(len(now), 0.2), np.zeros(len(now))
        best, least = now, math.inf
        for _ in range(_NUM_ITERATIONS // (1 if len(self.points) <= _MANY_POINTS else 2)):
            loss, gradient = self._loss(now, squares)
            offset = (now - middle) / width
            loss += 0.5 * float(offset @ offset)
            gradient += offset / width
            if loss < least:
                best, least = now, loss
            agreement = np.sign(gradient * former)
            step = np.clip(step * np.where(agreement < 0, 0.5, 1.2), 1e-3, 1.0)
            former = np.where(agreement < 0, 0.0, gradient)
            now = np.clip(now - step * np.sign(former), middle - 5, middle + 5)
        self._parameters = np.round(best, 2)
        self._condition()
        return self._parameters

    def assume(self, points: np.ndarray) -> None:
        """Adds points whose results are not known yet, as if they were those predicted."""
        if len(points):
            means, _ = self.predict(points)
            self.points = np.concatenate([self.points, points])
            self._values = np.concatenate([self._values, means])
            self._condition()

    def predict(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns mean and standard deviation of the results without noise."""
        covariance = self._kernel(self._squares(points, self.points))
        means = covariance @ self._weights
        variances = math.exp(self._parameters[-2]) - np.sum((covariance @ self._inverse.T) ** 2, 1)
        return means, np.sqrt(np.maximum(variances, 1e-12))

    def improve(self, points: np.ndarray, incumbent: float) -> np.ndarray:
        """Returns the logarithm of the expected improvement, rounded like the parameters."""
        means, deviations = self.predict(points)
        z = (incumbent - means) / deviations
        near = np.maximum(z, -5.0)
        density = np.exp(-0.5 * near**2) / math.sqrt(2 * math.pi)
        exact = np.log(near * 0.5 * _erfc(-near / math.sqrt(2)).astype(float) + density)
        tail = -0.5 * z**2 - 2 * np.log(np.maximum(-z, 1.0)) - 0.5 * math.log(2 * math.pi)
        improvements: np.ndarray = np.where(z > -5, exact, tail) + np.log(deviations)
        return np.round(improvements, 6)

    def _condition(self) -> None:
        covariance = self._kernel(self._squares(self.points, self.points))
        covariance[np.diag_indices_from(covariance)] += math.exp(self._parameters[-1]) + 1e-8
        self._inverse = np.linalg.inv(np.linalg.cholesky(covariance))
        self._weights = self._inverse.T @ (self._inverse @ self._values)

    def _squares(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Returns squares of distances in each hyperparameter; of different categories 1."""
        differences = left.T[:, :, None] - right.T[:, None, :]
        is_category = self._is_category[:, None, None]
        squares: np.ndarray = np.where(is_category, differences != 0, differences**2)
        return squares

    def _kernel(self, squares: np.ndarray) -> np.ndarray:
        scales = np.exp(-2 * self._parameters[:-2])
        root = np.sqrt(5 * np.tensordot(scales, squares, 1))
        kernel: np.ndarray = np.exp(self._parameters[-2] - root) * (1 + root + root**2 / 3)
        return kernel

    def _loss(self, parameters: np.ndarray, squares: np.ndarray) -> tuple[float, np.ndarray]:
        """Returns the negative logarithm of the likelihood, and its gradient."""
        scales, (signal, noise) = np.exp(-2 * parameters[:-2]), np.exp(parameters[-2:])
        root = np.sqrt(5 * np.tensordot(scales, squares, 1))
        decay = signal * np.exp(-root)
        kernel: np.ndarray = decay * (1 + root + root**2 / 3)
        lower = np.linalg.cholesky(kernel + (noise + 1e-8) * np.eye(len(kernel)))
        inverse = np.linalg.inv(lower)
        precision = inverse.T @ inverse
        weights = precision @ self._values
        outer = precision - np.outer(weights, weights)
        slope = outer * decay * (1 + root) * (5 / 3)
        gradient = np.concatenate([
            scales * np.tensordot(squares, slope, 2),
            [np.sum(outer * kernel), noise * np.trace(outer)],
        ])  # fmt: skip
        loss = 0.5 * float(self._values @ weights) + float(np.log(np.diag(lower)).sum())
        return loss, 0.5 * gradient


def _warp(results: np.ndarray) -> np.ndarray:
    """Returns results of mean 0 and deviation 1, in which bad ones are all about as bad."""
    median, best = np.median(results), results.min()
    clipped = np.minimum(results, median + (median - best))
    warped: np.ndarray = (clipped - clipped.mean()) / (clipped.std() or 1.0)
    return warped


def _is_log(part: optuna_distributions.BaseDistribution) -> bool:
    return bool(getattr(part, "log", False))


def _bounds(part: Any) -> tuple[float, float]:
    """Returns the ends of a range, as logarithms if it is one of powers; of categories 0 and 1."""
    if isinstance(part, optuna_distributions.CategoricalDistribution):
        return 0.0, 1.0
    return (math.log(part.low), math.log(part.high)) if _is_log(part) else (part.low, part.high)
