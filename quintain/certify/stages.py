"""Stages of a comparison, in the order in which a training computes them."""

import dataclasses
import enum
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from quintain import errors
from quintain.certify import lanes, variable_map

NUM_STEPS: Final = 10
_NOISE_FACTOR: Final = 10.0
_FUSED: Final = ("activation", "relu", "re_lu", "softmax", "leaky")


class Stage(enum.Enum):
    """A stage, with its name in reports."""

    INFERENCE = "forward pass in inference"
    TRAINING = "forward pass in training"
    LOSS = "loss"
    GRADIENTS = "gradients"
    UPDATES = f"{NUM_STEPS} updates"
    DROPOUT = "dropout"
    FRESH = "fresh weights"
    SHORT_TRAINING = "short trainings"


PASSES: Final = (Stage.INFERENCE, Stage.TRAINING)
COMPUTED: Final = (*PASSES, Stage.LOSS, Stage.GRADIENTS, Stage.UPDATES)
"""Those that compute numbers from the same weights, which only rounding may let differ."""


@dataclasses.dataclass(frozen=True)
class Difference:
    """The first place of a stage that differs."""

    stage: Stage
    index: int
    """Number of the place in the order of computing."""

    place: str
    size: float
    """Largest difference, relative to the largest value if that is above 1."""

    weight: int = -1
    """Number of the port's variable; -1 if the place is none."""

    step: int = 0


@dataclasses.dataclass
class Pair:
    """Two models with the same weights, and the batches that both get."""

    old: lanes.Lane
    new: lanes.Lane
    old_facts: dict[str, Any]
    new_facts: dict[str, Any]
    batches: Sequence[Any]
    tolerance: float
    map: variable_map.VariableMap
    values: list[np.ndarray]
    """Those of the older model at which all comparisons begin."""

    def set_map(self, new_map: variable_map.VariableMap) -> None:
        """Copies the weights by another map."""
        self.map = new_map
        self.new.call("set_values", new_map.apply(self.values))

    def compute_noise(self, stage: Stage) -> Any:
        """Returns what the port computes from reversed batches and weights that are an ulp off."""
        values = self.map.apply(self.values)
        random = np.random.default_rng(0)
        targets = [one + random.choice([-1, 1], one.shape).astype(one.dtype) for one in values]
        moved = [np.nextafter(a, b) for a, b in zip(values, targets, strict=True)]
        self.new.call("set_values", moved)
        batches = [slice_batch(one, slice(None, None, -1)) for one in self.batches]
        try:
            return self.compute(self.new, stage, batches)
        finally:
            self.new.call("set_values", values)

    def compute(self, lane: lanes.Lane, stage: Stage, batches: Sequence[Any] | None = None) -> Any:
        """Returns what a model computes in a stage, from batches or its own."""
        batches = self.batches if batches is None else batches
        if stage in PASSES:
            return lane.call("outputs", batches[0], stage is Stage.TRAINING)
        if stage in (Stage.LOSS, Stage.GRADIENTS):
            return [lane.call("steps", [one])[0] for one in self.list_probes(batches)]
        return lane.call("steps", [batches[n % len(batches)] for n in range(NUM_STEPS)])

    def list_probes(self, batches: Sequence[Any]) -> list[Any]:
        """Returns batches of two sizes, by which causes of other losses differ."""
        half = slice(max(1, count_rows(batches[0]) // 2))
        return [batches[0], slice_batch(batches[0], half), batches[-1]]

    def compare(self, stage: Stage, old: Any, new: Any, noise: Any = None) -> Difference | None:
        """Returns the first place at which two results differ.

        Args:
            stage: The stage.
            old: Result of the older model.
            new: Result of the port.
            noise: Result of `compute_noise`; None if rounding is not looked at.
        """
        if stage in PASSES:
            return self._compare_outputs(stage, old, new)
        places = zip(
            *(self._list_places(stage, one, is_old) for one, is_old in ((old, True), (new, False))),
            self._list_places(stage, noise or new, False),
            strict=True,
        )
        for index, ((name, weight, step, first), (*_, second), (*_, third)) in enumerate(places):
            scale = _find_scale(stage, old, first)
            size = _find_size(first, second, scale)
            allowed = max(self.tolerance, _NOISE_FACTOR * _find_size(second, third, scale))
            if not size <= allowed:
                return Difference(stage, index, name, size, weight, step)
        return None

    def measure(self, stage: Stage, old: Any, new: Any) -> float:
        """Returns the largest difference of a stage."""
        if stage in PASSES:
            return max((_find_size(a, b) for _, a, b in pair_outputs(old, new)), default=0.0)
        pairs = zip(
            self._list_places(stage, old, True), self._list_places(stage, new, False), strict=True
        )
        return max(
            (_find_size(a[3], b[3], _find_scale(stage, old, a[3])) for a, b in pairs), default=0.0
        )

    def _compare_outputs(self, stage: Stage, old: Any, new: Any) -> Difference | None:
        pairs = pair_outputs(old, new)
        sizes = [_find_size(first, second) for _, first, second in pairs]
        allowed = self.tolerance * _NOISE_FACTOR
        if all(size <= allowed for size in sizes):
            return None
        known: dict[int, list[np.ndarray]] = {}
        for _, value in old["layers"]:
            known.setdefault(value.size, []).append(value)
        is_found = [
            any(
                _find_size(one.reshape(-1), value.reshape(-1)) <= allowed
                for one in known.get(value.size, [])
            )
            for _, value in new["layers"]
        ]
        for index, first in reversed(list(enumerate(new["first_parts"]))):
            if is_found[index]:  # Then parts that OLD computes in another way don't matter.
                is_found[first:index] = [True] * (index - first)
        for index, (name, _) in enumerate(new["layers"]):
            is_fused = is_found[index + 1 : index + 2] == [True] and new["layers"][index + 1][
                0
            ].startswith(_FUSED)
            if not is_found[index] and not is_fused:
                return Difference(stage, index, f"layer {name!r}", max(sizes))
        return Difference(stage, len(is_found), "the outputs", max(sizes))

    def _list_places(
        self, stage: Stage, result: Any, is_old: bool
    ) -> Iterator[tuple[str, int, int, Any]]:
        """Yields name, number of the variable, step and value of places, in the port's terms."""
        weights = self.new_facts["weights"]
        for step, found in enumerate(result, 1):
            if stage is Stage.LOSS:
                yield "the loss", -1, step, np.asarray(found["loss"])
                continue
            key = "gradients" if stage is Stage.GRADIENTS else "values"
            values = found[key]
            if is_old:
                values = self.map.apply(values, is_gradient=stage is Stage.GRADIENTS)
            # Gradients are computed from the last layer to the first.
            numbers = range(len(weights))
            for number in reversed(numbers) if stage is Stage.GRADIENTS else numbers:
                value = values[number]
                name = f"{weights[number]['name']!r}"
                if stage is Stage.UPDATES:
                    name = f"{name} after step {step}"
                empty = np.zeros(weights[number]["shape"], np.float32)
                yield name, number, step, empty if value is None else value


def pair_outputs(old: Any, new: Any) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Returns outputs of the port with the nearest of the same size in the older model.

    Raises:
        ConfigError: If there is none of that size.
    """
    found = []
    own = {name for name, _ in new["outputs"]}
    for name, value in new["outputs"]:
        offered = [one for other, one in old["outputs"] if other == name and len(own) > 1]
        for source in (old["outputs"], old["layers"]):
            offered = offered or [one for _, one in source if one.size == value.size]
        if not offered:
            shapes = [list(one.shape) for _, one in old["outputs"]]
            raise errors.ConfigError(
                f"The outputs don't fit: NEW has {list(value.shape)}, OLD has {shapes}."
            )
        nearest = min(
            (one.reshape(value.shape) for one in offered), key=lambda one: _find_size(one, value)
        )
        found.append((name, nearest, value))
    return found


def count_rows(batch: Any) -> int:
    """Returns the number of examples of a batch."""
    return len(list_arrays(batch)[0])


def list_arrays(batch: Any) -> list[np.ndarray]:
    """Returns the arrays of a batch, features first."""
    if isinstance(batch, dict):
        return [one for key in sorted(batch) for one in list_arrays(batch[key])]
    if isinstance(batch, list | tuple):
        return [one for part in batch for one in list_arrays(part)]
    return [] if batch is None else [batch]


def slice_batch(batch: Any, rows: slice) -> Any:
    """Returns some rows of all arrays of a batch."""
    if isinstance(batch, dict):
        return {key: slice_batch(value, rows) for key, value in batch.items()}
    if isinstance(batch, list | tuple):
        return type(batch)(slice_batch(part, rows) for part in batch)
    return None if batch is None else np.ascontiguousarray(batch[rows])


def _find_scale(stage: Stage, old: Any, value: np.ndarray) -> float:
    if stage is Stage.GRADIENTS:
        return max(
            (float(np.max(np.abs(g))) for g in old[0]["gradients"] if g is not None and g.size),
            default=1.0,
        ) or 1.0  # fmt: skip
    return max(1.0, float(np.max(np.abs(value), initial=0.0)))


def _find_size(first: np.ndarray, second: np.ndarray, scale: float | None = None) -> float:
    """Returns the largest difference, relative to a scale; infinite where one is not finite."""
    if first.shape != second.shape:
        return float("inf")
    if scale is None:
        scale = max(1.0, float(np.max(np.abs(second), initial=0.0)))
    size = float(np.max(np.abs(first.astype(np.float64) - second), initial=0.0))
    return size / scale if np.isfinite(size) else float("inf")
