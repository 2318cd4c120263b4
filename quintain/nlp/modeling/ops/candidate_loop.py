"""The loop that beam search and sampling share: candidates grow id by id until all are settled.

The batch runs in chunks of a few steps. Shapes stay fixed within a chunk; between two of them
examples that are settled leave the batch, so that no time is spent on them, and there is made room
for the next ids.

Shapes:
    B  examples in the batch at first
    b  examples that are still in the batch
    K  candidates of each example
    L  ids of a candidate so far, the initial one included, and room for more
    P  longest prefix
    V  vocabulary size
"""

import abc
import dataclasses
from typing import Any, Final, NamedTuple

import tensorflow as tf

from quintain.nlp.modeling.ops import decoding_rules

CHUNK_STEPS: Final = 8
"""Steps between two looks at which examples are settled."""

_FULL_RATIO: Final = 0.75
"""A chunk ends early when less than this share of its examples is not settled."""

WORST_SCORE: Final = -1e7


class State(NamedTuple):
    """The candidates after a number of steps."""

    index: tf.Tensor
    """`[]` int32, steps done."""

    size: tf.Tensor
    """`[]` int32, B."""

    rows: tf.Tensor
    """`[b]` int32, which of the B examples are still here."""

    max_lengths: tf.Tensor
    """`[b]` int32, largest number of ids after the initial one."""

    prefix: tf.Tensor
    """`[b, P]` int32, padded with 0: what outputs start with."""

    is_active: tf.Tensor
    """`[b]` bool, whether the outputs of an example may still change."""

    alive_ids: tf.Tensor
    """`[b, K, L]` int32, candidates that go on."""

    alive_log_probs: tf.Tensor
    """`[b, K]`, their log-probabilities."""

    finished_ids: tf.Tensor
    """`[b, K, L]` int32, candidates that ended."""

    finished_scores: tf.Tensor
    """`[b, K]`, their length-normalised log-probabilities."""

    is_finished: tf.Tensor
    """`[b, K]` bool, whether there is a candidate at this place."""

    cache: Any
    """Nested tensors, the model's own."""


class Results(NamedTuple):
    """Finished candidates of all B examples."""

    ids: tf.Tensor
    """`[B, K, L]` int32."""

    scores: tf.Tensor
    """`[B, K]`."""


_RESULT_SHAPES: Final = Results(tf.TensorShape([None] * 3), tf.TensorShape([None] * 2))


class Predictor(abc.ABC):
    """Interface of a model to the decoding loop."""

    can_drop: bool = True
    """Whether examples may leave the batch."""

    @abc.abstractmethod
    def start(self, cache: Any, num_candidates: int) -> Any:
        """Returns the cache before the first step."""

    @abc.abstractmethod
    def predict(self, sequences: tf.Tensor, index: tf.Tensor, cache: Any) -> tuple[tf.Tensor, Any]:
        """Predicts the next id of all candidates.

        Args:
            sequences: `[b, K, L]` int32; what counts is up to place `index`.
            index: Scalar int32, steps done.
            cache: The cache.

        Returns:
            Logits `[b, K, V]`, and the cache.
        """

    @abc.abstractmethod
    def reorder(self, cache: Any, candidates: tf.Tensor) -> Any:
        """Returns the cache after each candidate was replaced by `candidates` `[b, K]`."""

    def relax_shape(self, part: tf.Tensor) -> tf.TensorShape:
        """Returns the shape of a part of the cache, with the sizes left open that may change."""
        return tf.TensorShape([None] * part.shape.rank)

    def keep(self, cache: Any, rows: tf.Tensor) -> Any:
        """Returns the cache of some examples."""
        return tf.nest.map_structure(lambda part: tf.gather(part, rows), cache)

    def grow(self, cache: Any, num_steps: int | tf.Tensor) -> Any:
        """Returns the cache with room for more steps."""
        return cache


@dataclasses.dataclass(frozen=True)
class CandidateLoop(abc.ABC):
    """Runs candidates to their ends."""

    predictor: Predictor
    """The model."""

    rules: decoding_rules.Rules
    """What outputs may hold."""

    num_candidates: int
    """Candidates of each example."""

    alpha: float
    """Strength of the length normalisation; 0 is none."""

    max_length: int | tf.Tensor
    """Largest number of ids after the initial one, for all examples or `[B]`."""

    has_fixed_shapes: bool
    """Whether all shapes stay fixed, as XLA needs. `max_length` must then be a Python number."""

    dtype: tf.DType
    """Float type of the scores."""

    @abc.abstractmethod
    def start_log_probs(self, size: tf.Tensor) -> tf.Tensor:
        """Returns the log-probabilities of `size` examples before the first step, `[B, K]`."""

    @abc.abstractmethod
    def advance(self, state: State) -> State:
        """Extends all candidates by one id; the loop itself sees to what does not change."""

    @abc.abstractmethod
    def is_settled(self, state: State) -> tf.Tensor:
        """Returns `[b]`, whether the outputs of each example can't change any more."""

    @abc.abstractmethod
    def choose(self, state: State) -> Results:
        """Returns the outputs of the examples that are still here."""

    def run(
        self, initial_ids: tf.Tensor, cache: Any, prefix: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Runs all examples to their end.

        Args:
            initial_ids: `[B]` int32, the id that every sequence starts with.
            cache: What the predictor's `start` takes.
            prefix: `[B, P]` int32, padded with 0: what outputs start with.

        Returns:
            `(ids, scores)`: `[B, K, L]` int32, padded with 0 and starting with the initial id, and
            `[B, K]`.
        """
        state = self._start(initial_ids, cache, prefix)
        if self.has_fixed_shapes:
            state = self._run_chunk(self._make_room(state, int(self.max_length)))
            results = self.choose(state)
            return results.ids, results.scores
        state, results = tf.while_loop(
            lambda state, results: tf.reduce_any(state.is_active),
            self._run_and_leave,
            loop_vars=[state, self.choose(state)],
            shape_invariants=[self._relax_shapes(state), _RESULT_SHAPES],
        )
        return results.ids[:, :, : state.index + 1], results.scores

    def _start(self, initial_ids: tf.Tensor, cache: Any, prefix: tf.Tensor | None) -> State:
        size = tf.shape(initial_ids)[0]
        ids = tf.tile(initial_ids[:, tf.newaxis, tf.newaxis], [1, self.num_candidates, 1])
        max_lengths = tf.broadcast_to(tf.cast(self.max_length, tf.int32), [size])  # [B]
        shape = [size, self.num_candidates]
        return State(
            index=tf.constant(0),
            size=size,
            rows=tf.range(size),
            max_lengths=max_lengths,
            prefix=tf.zeros([size, 0], tf.int32) if prefix is None else prefix,
            is_active=max_lengths > 0,
            alive_ids=ids,
            alive_log_probs=self.start_log_probs(size),
            finished_ids=tf.zeros_like(ids),
            finished_scores=tf.fill(shape, self.worst_score),
            is_finished=tf.zeros(shape, tf.bool),
            cache=self.predictor.start(cache, self.num_candidates),
        )

    def _run_and_leave(self, state: State, results: Results) -> tuple[State, Results]:
        """Runs a chunk, notes what was found, and lets settled examples leave."""
        room = tf.shape(state.alive_ids)[2] - 1 - state.index  # Of a chunk that ended early.
        state = self._run_chunk(self._make_room(state, CHUNK_STEPS - room))
        chosen = self.choose(state)
        room = tf.shape(chosen.ids)[2] - tf.shape(results.ids)[2]
        ids = tf.pad(results.ids, [[0, 0], [0, 0], [0, room]])  # [B, K, L]
        rows = state.rows[:, tf.newaxis]  # [b, 1]
        results = Results(
            tf.tensor_scatter_nd_update(ids, rows, chosen.ids),
            tf.tensor_scatter_nd_update(results.scores, rows, chosen.scores),
        )
        return (self._leave(state) if self.predictor.can_drop else state), results

    def _run_chunk(self, state: State) -> State:
        """Does steps while there is room for ids, and most examples are not settled."""
        num_rows = tf.cast(tf.shape(state.rows)[0], tf.float32)
        room = tf.shape(state.alive_ids)[2] - 1

        def goes_on(state: State) -> tf.Tensor:
            num_active = tf.math.count_nonzero(state.is_active, dtype=tf.float32)
            is_full = num_active >= num_rows * _FULL_RATIO
            if self.has_fixed_shapes or not self.predictor.can_drop:
                is_full = num_active > 0
            return is_full & (num_active > 0) & (state.index < room)

        (state,) = tf.while_loop(
            goes_on,
            lambda state: (self._step(state),),
            loop_vars=[state],
            shape_invariants=None if self.has_fixed_shapes else [self._relax_shapes(state)],
        )
        return state

    def _step(self, state: State) -> State:
        new = self.advance(state)
        frozen = tf.logical_not(state.is_active)  # [b]
        kept = {
            name: _choose_rows(frozen, getattr(state, name), getattr(new, name))
            for name in (
                "alive_ids",
                "alive_log_probs",
                "finished_ids",
                "finished_scores",
                "is_finished",
            )
        }
        new = new._replace(index=state.index + 1, **kept)
        is_over = self.is_settled(new) | (new.index >= new.max_lengths)  # [b]
        return new._replace(is_active=state.is_active & tf.logical_not(is_over))

    def _make_room(self, state: State, num_steps: int | tf.Tensor) -> State:
        room = [[0, 0], [0, 0], [0, num_steps]]
        return state._replace(
            alive_ids=tf.pad(state.alive_ids, room),
            finished_ids=tf.pad(state.finished_ids, room),
            cache=self.predictor.grow(state.cache, num_steps),
        )

    def _leave(self, state: State) -> State:
        places = tf.where(state.is_active)[:, 0]  # [b]
        parts = {
            name: tf.gather(value, places)
            for name, value in state._asdict().items()
            if name not in ("index", "size", "cache")
        }
        return state._replace(cache=self.predictor.keep(state.cache, places), **parts)

    def _relax_shapes(self, state: State) -> State:
        row, candidate = tf.TensorShape([None]), tf.TensorShape([None, self.num_candidates])
        sequence = candidate.concatenate([None])
        return State(
            index=tf.TensorShape([]),
            size=tf.TensorShape([]),
            rows=row,
            max_lengths=row,
            prefix=row.concatenate(state.prefix.shape[1:]),
            is_active=row,
            alive_ids=sequence,
            alive_log_probs=candidate,
            finished_ids=sequence,
            finished_scores=candidate,
            is_finished=candidate,
            cache=tf.nest.map_structure(self.predictor.relax_shape, state.cache),
        )

    def extend(self, sequences: tf.Tensor, ids: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
        """Returns sequences `[..., L]` with `ids` `[...]` after `index` others."""
        place = tf.range(tf.shape(sequences)[-1]) == index + 1  # [L]
        return tf.where(place, ids[..., tf.newaxis], sequences)

    def norm(self, length: int | tf.Tensor) -> tf.Tensor:
        """Returns what the log-probability of so many ids is divided by."""
        return tf.pow((5.0 + tf.cast(length, self.dtype)) / 6.0, tf.cast(self.alpha, self.dtype))

    @property
    def worst_score(self) -> tf.Tensor:
        """The score where there is no candidate."""
        return tf.cast(max(WORST_SCORE, float(self.dtype.min)), self.dtype)


def _choose_rows(is_first: tf.Tensor, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    shape = tf.concat([tf.shape(is_first), tf.ones([first.shape.rank - 1], tf.int32)], axis=0)
    return tf.where(tf.reshape(is_first, shape), first, second)
