"""Bayesian search by the samplers of Optuna.

Source:
    Parzen estimators: Bergstra et al., 2011 (https://papers.nips.cc/paper/4443).
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NotRequired, TypedDict, Unpack

import numpy as np
from typing_extensions import override

from quintain.search import base_search, hyperparameters, known_trial, rungs
from quintain.search import space as space_lib


class Sizes(TypedDict):
    """Size of a search; see `BayesianSearch`."""

    max_length: int
    max_trials: int
    max_concurrent_trials: NotRequired[int]


Sampler = Callable[[Any, int], Any]
"""Builds a sampler from the module `optuna.samplers` and a seed."""


class BayesianSearch(base_search.SearchMethod):
    """Proposes each trial from the results of the ones before, and may stop bad ones early.

    With more than one rung, a trial is stopped at the first rung where it is not among the best, as
    in `AshaStoppingSearch`, and its last result is what the sampler learns from. The proposals
    follow from the seed and the order of the results.
    """

    def __init__(
        self,
        space: space_lib.Space,
        random: np.random.RandomState,
        sampler: Sampler,
        *,
        max_length: int,
        max_trials: int,
        max_concurrent_trials: int = 0,
        num_rungs: int = 1,
        divisor: float = 4.0,
        further_signs: Sequence[bool] = (),
        num_startup_trials: int = 0,
    ) -> None:
        """Creates the study.

        Args:
            space: The hyperparameters.
            random: Source of all random numbers.
            sampler: What proposes points.
            max_length: Units to train the best trials for.
            max_trials: Trials in all.
            max_concurrent_trials: Trials at once; 0 for 4, because a proposal learns only from
                trials that have ended.
            num_rungs: Rungs of early stopping; 1 trains each trial to the end.
            divisor: One trial of so many goes on to the next rung.
            further_signs: For each further metric that decides, whether smaller values are better.
            num_startup_trials: Trials that the space draws where it has priors, which the sampler
                does not know.
        """
        super().__init__(space, random)
        import optuna  # noqa: PLC0415 - takes a second, which other methods need not pay

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._optuna = optuna
        self._study = optuna.create_study(
            sampler=sampler(optuna.samplers, int(random.randint(0, 2**31))),
            directions=["minimize"] * (1 + len(further_signs)),
        )
        self._further_signs = further_signs
        self._further: dict[str, list[float]] = {}
        self._rungs = [
            rungs.Rung(length)
            for length in base_search.rung_lengths(max_length, divisor, num_rungs)
        ]
        self._divisor = divisor
        self.max_trials = max_trials
        self.max_concurrent_trials = max_concurrent_trials or 4
        self._distributions = {
            dimension.name: _to_distribution(optuna, dimension.hyperparameter)
            for dimension in space.dimensions
            if not isinstance(dimension.hyperparameter, hyperparameters.Const)
        }
        while space.first_points:
            self._study.enqueue_trial(self._to_proposal(space.first_points.popleft()))
        self._num_near_priors = num_startup_trials - 1 if space.centers else 0
        self._proposals: dict[str, Any] = {}
        self._rung_of: dict[str, int] = {}
        self._num_created = 0
        self._num_ended = 0
        self._num_without_result = 0

    @override
    def learn(self, history: Sequence[known_trial.KnownTrial]) -> None:
        known_trial.fill_rungs(self._rungs, history)
        self._num_near_priors -= len(history)
        for trial in history:
            values = [trial.metric, *self._sign(trial.further)]
            if base_search.WORST_METRIC in values:
                continue
            point = self.space.flatten(trial.hparams)
            if missing := self._distributions.keys() - point:  # Unused: any value is as good.
                drawn = self.space.draw(self.random)
                point |= {name: drawn[name] for name in missing}
            self._study.add_trial(
                self._optuna.create_trial(
                    params=self._to_proposal(point),
                    distributions=self._distributions,
                    values=values,
                )
            )

    @override
    def start(self) -> list[base_search.Operation]:
        for _ in range(self._num_near_priors):
            self._study.enqueue_trial(self._to_proposal(self.space.draw(self.random)))
        count = min(self._limit, self.max_trials)
        return [operation for _ in range(count) for operation in self._create_next()]

    @property
    @override
    def num_further(self) -> int:
        return len(self._further_signs)

    @override
    def note_further(self, request_id: str, metrics: Sequence[float]) -> None:
        self._further[request_id] = self._sign(metrics)

    def _sign(self, metrics: Sequence[float]) -> list[float]:
        return [
            base_search.to_signed(metric, smaller_is_better=is_smaller)
            for metric, is_smaller in zip(metrics, self._further_signs, strict=True)
        ]

    @override
    def on_validated(
        self, request_id: str, metric: float, length: int
    ) -> list[base_search.Operation]:
        index = self._rung_of[request_id]
        is_good = self._rungs[index].is_among_best(request_id, metric, self._divisor)
        if index == len(self._rungs) - 1 or not is_good:
            self._learn(request_id, metric)
            return [base_search.Close(request_id)]
        self._rung_of[request_id] = index + 1
        self._rungs[index].promoted.add(request_id)
        return base_search.train_and_validate(request_id, self._rungs[index + 1].length)

    @override
    def on_closed(self, request_id: str) -> list[base_search.Operation]:
        del request_id
        self._num_ended += 1
        return self._create_next()

    @override
    def on_exited_early(
        self, request_id: str, reason: base_search.ExitReason
    ) -> list[base_search.Operation]:
        self._learn(request_id, base_search.WORST_METRIC)
        if reason is base_search.ExitReason.INVALID_HP:
            self._num_created -= 1
        else:
            self._num_ended += 1
            self._num_without_result += self._rung_of[request_id] == 0
        return self._create_next()

    @override
    def extend(self, max_trials: int) -> list[base_search.Operation]:
        self.max_trials = max_trials
        operations: list[base_search.Operation] = []
        while self._num_created < max_trials and self._num_created - self._num_ended < self._limit:
            operations += self._create_next()
        return operations

    @override
    def list_brackets(self) -> list[Sequence[rungs.Rung]]:
        return [self._rungs] if len(self._rungs) > 1 else []

    @override
    def left(self) -> float:
        num_trials = self.max_trials - self._num_without_result
        return rungs.left_by_stopping(self._rungs, num_trials, self._divisor)

    @property
    def _limit(self) -> int:
        """Trials at once."""
        return int(min(self.max_concurrent_trials, self.most_ready))

    def _create_next(self) -> list[base_search.Operation]:
        if self._num_created >= self.max_trials:
            return []
        self._num_created += 1
        proposal = self._study.ask(self._distributions)
        create = self.create(self.space.assemble(proposal.params))
        self._proposals[create.request_id] = proposal
        self._rung_of[create.request_id] = 0
        first = self._rungs[0].length
        return [create, *base_search.train_and_validate(create.request_id, first)]

    def _to_proposal(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the values of a point as the sampler names them."""
        proposal = {}
        for dimension in self.space.dimensions:
            if dimension.name not in point or dimension.name not in self._distributions:
                continue
            value = point[dimension.name]
            if isinstance(dimension.hyperparameter, hyperparameters.Categorical):
                proposal[dimension.name] = list(dimension.hyperparameter.vals).index(value)
            else:
                proposal[dimension.name] = value
        return proposal

    def _learn(self, request_id: str, metric: float) -> None:
        """Tells the estimators the result of a trial; it is told once."""
        proposal = self._proposals.pop(request_id, None)
        if proposal is None:
            return
        values = [metric, *self._further.pop(request_id, ())]
        if base_search.WORST_METRIC in values:
            self._study.tell(proposal, state=self._optuna.trial.TrialState.FAIL)
        else:
            self._study.tell(proposal, values)


def _build_tpe(
    samplers: Any, seed: int, num_startup_trials: int, *, multivariate: bool = True
) -> Any:
    return samplers.TPESampler(
        n_startup_trials=num_startup_trials,
        seed=seed,
        multivariate=multivariate,
        constant_liar=True,
    )


def build_tpe(
    space: space_lib.Space,
    random: np.random.RandomState,
    *,
    num_startup_trials: int = 10,
    num_rungs: int = 1,
    divisor: float = 4.0,
    **sizes: Unpack[Sizes],
) -> BayesianSearch:
    """Builds a search by a tree of Parzen estimators.

    Args:
        space: The hyperparameters.
        random: Source of all random numbers.
        num_startup_trials: Trials drawn at random before the estimators are used.
        num_rungs: See `BayesianSearch`.
        divisor: See `BayesianSearch`.
        **sizes: See `BayesianSearch`.
    """
    sampler = functools.partial(_build_tpe, num_startup_trials=num_startup_trials)
    return BayesianSearch(
        space,
        random,
        sampler,
        num_rungs=num_rungs,
        divisor=divisor,
        num_startup_trials=num_startup_trials,
        **sizes,
    )


def build_gp(
    space: space_lib.Space,
    random: np.random.RandomState,
    *,
    num_startup_trials: int = 10,
    **sizes: Unpack[Sizes],
) -> BayesianSearch:
    """Builds a search by a Gaussian process, which knows that results have noise.

    Args:
        space: The hyperparameters.
        random: Source of all random numbers.
        num_startup_trials: Trials drawn at random before the process is used.
        **sizes: See `BayesianSearch`.
    """

    def build(samplers: Any, seed: int) -> Any:
        from quintain.search import gaussian  # noqa: PLC0415 - imports Optuna, see above

        del samplers
        return gaussian.GaussianSampler(seed, num_startup_trials)

    return BayesianSearch(space, random, build, num_startup_trials=num_startup_trials, **sizes)


def build_multi_objective(
    space: space_lib.Space,
    random: np.random.RandomState,
    *,
    further_objectives: Sequence[Mapping[str, Any]],
    sampler: str = "tpe",
    num_startup_trials: int = 10,
    population_size: int = 50,
    **sizes: Unpack[Sizes],
) -> BayesianSearch:
    """Builds a search for the points that are best in several metrics.

    Source:
        NSGA-II: Deb et al., 2002 (https://doi.org/10.1109/4235.996017). Parzen estimators: Ozaki
        et al., 2022 (https://doi.org/10.1613/jair.1.13188).

    Args:
        space: The hyperparameters.
        random: Source of all random numbers.
        further_objectives: `metric` and `smaller_is_better` of each metric besides the first.
        sampler: `tpe` or `nsga2`.
        num_startup_trials: Trials drawn at random before the estimators of `tpe` are used.
        population_size: Trials of a generation of `nsga2`.
        **sizes: See `BayesianSearch`.
    """

    def build(samplers: Any, seed: int) -> Any:
        if sampler == "tpe":
            return _build_tpe(samplers, seed, num_startup_trials, multivariate=False)
        return samplers.NSGAIISampler(population_size=population_size, seed=seed)

    signs = [objective["smaller_is_better"] for objective in further_objectives]
    return BayesianSearch(
        space,
        random,
        build,
        further_signs=signs,
        num_startup_trials=num_startup_trials,
        **sizes,
    )


def _to_distribution(optuna: Any, hyperparameter: hyperparameters.Hyperparameter) -> Any:
    """Returns the range of a hyperparameter as Optuna describes it."""
    distributions = optuna.distributions
    match hyperparameter:
        case hyperparameters.Int(minval, maxval):
            return distributions.IntDistribution(minval, maxval)
        case hyperparameters.Double(minval, maxval):
            return distributions.FloatDistribution(minval, maxval)
        case hyperparameters.Log():
            return distributions.FloatDistribution(*hyperparameter.bounds, log=True)
        case hyperparameters.Categorical(vals):
            return distributions.CategoricalDistribution(range(len(vals)))
        case _:
            raise TypeError(f"{hyperparameter!r} has no range.")
