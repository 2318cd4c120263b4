"""Decoding settings, and the loop that follows from them."""

import dataclasses
import math
from typing import Any, Final, Literal

import tensorflow as tf

from quintain import errors
from quintain.nlp.modeling.ops import beam, candidate_loop, decoding_rules, sampler

MAX_CANDIDATES: Final = 4096
"""Most candidates of an example. As many take a gigabyte, ten times as many all memory there is."""

_MAX_INTEGER: Final = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class DecodingOptions:
    """Beam search, or sampling where `sampling_temperature` is given.

    Example:
        >>> DecodingOptions(beam_size=8, num_outputs=4).num_candidates
        8
        >>> DecodingOptions(sampling_temperature=0.8, num_outputs=2).num_candidates
        2
    """

    beam_size: int = 4
    """Candidates kept for each example. Sampling does not use it."""

    alpha: float = 0.6
    """Strength of the length normalisation; 0 is none."""

    num_outputs: int = 1
    """Outputs of each example: the best ones of the search, or so many samples."""

    min_length: int = 0
    """Fewest tokens of an output, its end not counted."""

    no_repeat_ngram_size: int = 0
    """No output holds the same so many tokens in a row twice; 0 allows all."""

    sampling_temperature: float | None = None
    """None searches; 0 follows the most probable token; else logits are divided by it and tokens
    drawn."""

    top_k: int = 0
    """Most probable tokens to draw from; 0 is all."""

    top_p: float = 1.0
    """Probability of the most probable tokens to draw from, after `top_k`; 1 is all."""

    precision: Literal["float32", "bfloat16", "int8"] | None = None
    """Type of the decoder's layers; None is the model's own. `int8` rounds all matrices, those of
    the encoder too, to integers with a scale for each channel. Scores are float32."""

    def __post_init__(self) -> None:
        """Checks the numbers.

        Raises:
            ConfigError: If one is out of its range, or two don't go together.
        """
        for name, least, most in (
            ("beam_size", 1, MAX_CANDIDATES),
            ("num_outputs", 1, MAX_CANDIDATES),
            ("min_length", 0, _MAX_INTEGER),
            ("no_repeat_ngram_size", 0, _MAX_INTEGER),
            ("top_k", 0, _MAX_INTEGER),
        ):
            if not least <= getattr(self, name) <= most:
                expected = f"an integer from {least} to {most:,}"
                raise _out_of_range(name, getattr(self, name), expected)
        if not 0 <= self.alpha < math.inf:
            raise _out_of_range("alpha", self.alpha, "a finite number >= 0")
        if not 0 < self.top_p <= 1:
            raise _out_of_range("top_p", self.top_p, "a number above 0, at most 1")
        if self.sampling_temperature is None:
            if self.top_k or self.top_p < 1:
                raise errors.ConfigError(
                    "top_k, top_p: have no effect on the beam search; give sampling_temperature as "
                    "well, such as 1."
                )
            if self.num_outputs > self.beam_size:
                raise errors.ConfigError(
                    f"num_outputs: got {self.num_outputs}, but the search keeps beam_size="
                    f"{self.beam_size} candidates; raise beam_size."
                )
        elif not 0 <= self.sampling_temperature < math.inf:
            expected = "a finite number >= 0"
            raise _out_of_range("sampling_temperature", self.sampling_temperature, expected)
        if self.precision not in (None, "float32", "bfloat16", "int8"):
            raise _out_of_range("precision", self.precision, "'float32', 'bfloat16' or 'int8'")

    @property
    def num_candidates(self) -> int:
        """Candidates of each example that are decoded at the same time."""
        return self.beam_size if self.sampling_temperature is None else self.num_outputs

    def override(self, **options: Any) -> "DecodingOptions":
        """Returns these settings with some replaced.

        More outputs than `beam_size` raise it, unless it is given too.

        Raises:
            ConfigError: If there is no such option, or its value is out of its range.
        """
        known = [field.name for field in dataclasses.fields(self)]
        for name in options:
            if name not in known:
                raise errors.ConfigError(
                    f"{name}: there is no such decoding option.{errors.suggest(name, known)}"
                )
        num_outputs = options.get("num_outputs", self.num_outputs)
        if "beam_size" not in options and num_outputs > self.beam_size:
            options = {**options, "beam_size": num_outputs}
        return dataclasses.replace(self, **options)

    def build_loop(
        self,
        predictor: candidate_loop.Predictor,
        *,
        eos_ids: tuple[int, ...],
        max_length: int | tf.Tensor,
        has_fixed_shapes: bool,
        seed: tf.Tensor | None = None,
    ) -> candidate_loop.CandidateLoop:
        """Returns what runs a batch.

        Args:
            predictor: The model.
            eos_ids: Ids that end an output.
            max_length: Longest output, for all examples or `[B]`.
            has_fixed_shapes: Whether all shapes stay fixed, as XLA needs.
            seed: `[2]` integers to draw by; None takes TensorFlow's global generator.
        """
        arguments: dict[str, Any] = {
            "predictor": predictor,
            "rules": decoding_rules.Rules(eos_ids, self.min_length, self.no_repeat_ngram_size),
            "num_candidates": self.num_candidates,
            "alpha": self.alpha,
            "max_length": max_length,
            "has_fixed_shapes": has_fixed_shapes,
            "dtype": tf.float32,
        }
        if self.sampling_temperature is None:
            return beam.BeamSearch(num_results=self.num_outputs, **arguments)
        return sampler.Sampler(
            temperature=float(self.sampling_temperature),
            top_k=self.top_k,
            top_p=self.top_p,
            seed=sampler.build_seed(None) if seed is None else seed,
            **arguments,
        )


def _out_of_range(name: str, given: Any, expected: str) -> errors.ConfigError:
    return errors.ConfigError(f"{name}: got {given!r}, expected {expected}.")
