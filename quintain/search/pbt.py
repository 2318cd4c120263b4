"""Population-based training: after each round, copies of the best trials replace the worst.

Source:
    Jaderberg et al., 2017 (https://arxiv.org/abs/1711.09846).
"""

import numpy as np
from typing_extensions import override

from quintain.search import base_search
from quintain.search import space as space_lib


class PbtSearch(base_search.SearchMethod):
    """Trains a population in rounds.

    All trials finish a round before the next one starts. Then the best `truncate_fraction` are
    saved and copied, with hyperparameters near their own, and as many of the worst are closed.
    """

    def __init__(
        self,
        space: space_lib.Space,
        random: np.random.RandomState,
        *,
        population_size: int,
        num_rounds: int,
        length_per_round: int,
        truncate_fraction: float,
        resample_probability: float,
        perturb_factor: float,
    ) -> None:
        """Stores the parameters.

        Args:
            space: The hyperparameters.
            random: Source of all random numbers.
            population_size: Trials at a time.
            num_rounds: Rounds.
            length_per_round: Units of training of a round.
            truncate_fraction: Part of the population that is replaced after a round, up to 0.5.
            resample_probability: Probability that a copy draws a hyperparameter anew.
            perturb_factor: Change of the others, as a fraction of their value.
        """
        super().__init__(space, random)
        self.population_size = population_size
        self.num_rounds = num_rounds
        self.length_per_round = length_per_round
        self.truncate_fraction = truncate_fraction
        self.resample_probability = resample_probability
        self.perturb_factor = perturb_factor
        self._round = 0
        self._hparams: dict[str, space_lib.Hparams] = {}
        self._length: dict[str, int] = {}
        self._metrics: dict[str, float] = {}
        self._waiting_for: set[str] = set()
        self._order: dict[str, int] = {}
        self._parents: dict[str, None] = {}
        self._exited: set[str] = set()

    @override
    def start(self) -> list[base_search.Operation]:
        operations: list[base_search.Operation] = []
        for _ in range(self.population_size):
            operations += self._add(self.create())
        return operations

    @override
    def on_validated(
        self, request_id: str, metric: float, length: int
    ) -> list[base_search.Operation]:
        del length
        return self._on_result(request_id, metric)

    @override
    def on_checkpointed(self, request_id: str) -> list[base_search.Operation]:
        if request_id not in self._parents:
            return []
        del self._parents[request_id]
        operations = self._copy(request_id)
        if request_id not in self._exited:
            operations += self._train(request_id)
        return operations

    @override
    def on_exited_early(
        self, request_id: str, reason: base_search.ExitReason
    ) -> list[base_search.Operation]:
        del reason
        self._exited.add(request_id)
        if request_id in self._waiting_for:
            return self._on_result(request_id, base_search.WORST_METRIC)
        if request_id in self._parents:  # It ended before it was saved, so there is no copy.
            del self._parents[request_id]
            return self._end_round_if_complete()
        return []

    @override
    def left(self) -> float:
        if not self._order:
            return self.population_size * self.num_rounds * self.length_per_round
        rounds = max(self.num_rounds - self._round - 1, 0)
        under_way = len(self._waiting_for) + 2 * len(self._parents)
        return (under_way + self.population_size * rounds) * self.length_per_round

    def _add(self, create: base_search.Create) -> list[base_search.Operation]:
        self._hparams[create.request_id] = create.hparams
        self._length[create.request_id] = 0
        self._order[create.request_id] = len(self._order)
        return [create, *self._train(create.request_id)]

    def _train(self, request_id: str) -> list[base_search.Operation]:
        self._length[request_id] += self.length_per_round
        self._waiting_for.add(request_id)
        return base_search.train_and_validate(request_id, self._length[request_id])

    def _copy(self, parent: str) -> list[base_search.Operation]:
        """Creates a trial near `parent`; its own count of training starts at 0."""
        hparams = self.space.explore(
            self._hparams[parent],
            self.random,
            resample_probability=self.resample_probability,
            perturb_factor=self.perturb_factor,
        )
        return self._add(self.create(hparams, parent=parent))

    def _on_result(self, request_id: str, metric: float) -> list[base_search.Operation]:
        self._waiting_for.discard(request_id)
        self._metrics[request_id] = metric
        return self._end_round_if_complete()

    def _end_round_if_complete(self) -> list[base_search.Operation]:
        if self._waiting_for or self._parents or not self._metrics:
            return []
        self._round += 1
        ranked = sorted(self._metrics, key=lambda name: (self._metrics[name], self._order[name]))
        self._metrics = {}
        alive = [name for name in ranked if name not in self._exited]
        if self._round >= self.num_rounds:
            return [base_search.Close(name) for name in alive]
        num_replaced = int(self.truncate_fraction * self.population_size)
        worst = ranked[len(ranked) - num_replaced :]
        best = [name for name in ranked[:num_replaced] if name in alive]
        self._parents = dict.fromkeys(best)
        operations: list[base_search.Operation] = [
            base_search.Close(name) for name in worst if name in alive
        ]
        for name in alive:
            if name in self._parents:
                operations.append(base_search.Checkpoint(name))
            elif name not in worst:
                operations += self._train(name)
        return operations
