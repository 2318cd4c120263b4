"""Continuation of texts by causal models, token by token: sampling, beams and stop words.

Shapes:
    K  beams
    L  places of a text and its continuation
    V  tokens of the vocabulary
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.hub import configs

CHUNK = 64
"""The places of a continuation are a multiple of it, so that few sizes are compiled."""


@dataclasses.dataclass
class Answer:
    """A continuation."""

    ids: list[int]
    """Its tokens, without what ended it."""

    finish_reason: str
    """`stop` if it ended by itself, `length` if it was cut."""


class Generator:
    """Continues texts of one causal model.

    Args:
        model: A `CausalLM` of KerasHub.
        end_ids: Tokens after which a text has ended.
        max_length: Most tokens of a text with its continuation.
    """

    def __init__(self, model: Any, end_ids: Sequence[int], max_length: int) -> None:
        self._model = model
        self._end_ids = set(end_ids)
        self.max_length = max_length
        self._fill = tf.function(self._fill_cache, reduce_retracing=True)
        self._step = tf.function(self._do_step, reduce_retracing=True)

    def _fill_cache(self, token_ids: tf.Tensor) -> Any:
        """Returns keys and values of all layers for tokens `[1, L]`."""
        return self._model._build_cache(token_ids)[1]

    def _do_step(self, tokens: tf.Tensor, cache: tf.Tensor, place: tf.Tensor) -> Any:
        """Returns the logits `[K, V]` after tokens `[K, 1]` at a place, and the new cache."""
        logits, _, cache = self._model.call_with_cache(tokens, cache, place)
        return tf.cast(logits[:, 0], tf.float32), cache

    def _start(self, prompt: Sequence[int], max_new_tokens: int) -> tuple[np.ndarray, Any]:
        total = min(len(prompt) + max_new_tokens, self.max_length)
        if len(prompt) >= total:
            raise errors.DataError(
                f"the text has {len(prompt):,} tokens, which leaves no place for an answer: at "
                f"most {self.max_length:,} are read and written. Shorten it."
            )
        padded = np.zeros([1, min(-(-total // CHUNK) * CHUNK, self.max_length)], np.int32)
        padded[0, : len(prompt)] = prompt
        return padded, self._fill(tf.constant(padded))

    def stream(
        self, prompt: Sequence[int], settings: configs.GenerationConfig, seed: int = 0
    ) -> Iterator[int | None]:
        """Yields the tokens of a continuation; None at the end if it ended by itself.

        Raises:
            DataError: If the text leaves no place.
        """
        tokens, cache = self._start(prompt, settings.max_new_tokens)
        generator = np.random.default_rng(seed)
        last = prompt[-1]
        end = min(len(prompt) + settings.max_new_tokens, tokens.shape[1])
        for place in range(len(prompt), end):
            logits, cache = self._step(
                tf.constant([[last]], tf.int32), cache, tf.constant(place - 1)
            )
            last = choose(logits.numpy()[0], settings, generator)
            if last in self._end_ids:
                yield None
                return
            yield last

    def search(self, prompt: Sequence[int], settings: configs.GenerationConfig) -> Answer:
        """Returns the continuation of the highest probability among beams.

        Raises:
            DataError: If the text leaves no place.
        """
        size = settings.num_beams
        tokens, cache = self._start(prompt, settings.max_new_tokens)
        cache = tf.repeat(cache, size, axis=0)
        beams: list[list[int]] = [[] for _ in range(size)]
        scores = np.array([0.0] + [-np.inf] * (size - 1))
        best: tuple[float, list[int]] | None = None
        end = min(len(prompt) + settings.max_new_tokens, tokens.shape[1])
        for place in range(len(prompt), end):
            last = [[beam[-1] if beam else prompt[-1]] for beam in beams]
            logits, cache = self._step(tf.constant(last, tf.int32), cache, tf.constant(place - 1))
            totals = scores[:, None] + tf.nn.log_softmax(logits).numpy()  # [K, V]
            order = np.argsort(-totals, axis=None, kind="stable")[: 2 * size]
            parents, new = np.unravel_index(order, totals.shape)
            kept: list[tuple[int, int, float]] = []
            for parent, token in zip(parents.tolist(), new.tolist(), strict=True):
                total = float(totals[parent, token])
                if token in self._end_ids:
                    score = total / (len(beams[parent]) + 1)
                    if best is None or score > best[0]:
                        best = score, beams[parent]
                elif len(kept) < size:
                    kept.append((parent, token, total))
            scores = np.array([total for _, _, total in kept])
            beams = [[*beams[parent], token] for parent, token, _ in kept]
            cache = tf.gather(cache, [parent for parent, _, _ in kept])
            if best is not None and best[0] >= scores.max() / (place - len(prompt) + 2):
                break
        if best is not None:
            return Answer(best[1], "stop")
        return Answer(beams[int(scores.argmax())], "length")


def choose(
    logits: np.ndarray, settings: configs.GenerationConfig, generator: np.random.Generator
) -> int:
    """Returns the next token: the best one at temperature 0, or else one that is drawn.

    Args:
        logits: `[V]`.
        settings: `temperature`; of how many tokens (`top_k`), and of which share of the
            probability (`top_p`), is drawn.
        generator: Source of the draws.
    """
    if settings.temperature == 0:
        return int(logits.argmax())
    order = np.argsort(-logits, kind="stable")
    order = order[: settings.top_k or None]
    scaled = (logits[order] - logits[order[0]]).astype(np.float64) / settings.temperature
    weights = np.exp(scaled)
    weights /= weights.sum()
    kept = np.cumsum(weights) - weights < settings.top_p  # The best one always is.
    weights = np.where(kept, weights, 0.0)
    return int(generator.choice(order, p=weights / weights.sum()))
