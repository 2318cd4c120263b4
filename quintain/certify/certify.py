"""Comparison of a port with the older model, stage by stage up to the first difference."""

import dataclasses
import pathlib
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from quintain import errors
from quintain.certify import causes, certificate, fresh_weights, lanes, stages, variable_map
from quintain.certify.stages import Difference, Pair, Stage


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of a comparison."""

    batch: pathlib.Path | None = None
    batch_size: int = 32
    map: pathlib.Path | None = None
    seeds: int = 5
    steps: int = 200
    tolerance: float = 1e-6


def certify(old: str, new: str, options: Options) -> certificate.Certificate:
    """Returns what a comparison finds.

    Raises:
        ConfigError: If a model, the batches or the map are not what is needed.
    """
    sources = [lanes.parse_source(old, "OLD"), lanes.parse_source(new, "NEW")]
    batches = None if options.batch is None else _read_batches(options.batch, options.batch_size)
    with lanes.open_lane(sources[0]) as old_lane, lanes.open_lane(sources[1]) as new_lane:
        return compare(old_lane, new_lane, batches, options)


def compare(
    old: lanes.Lane, new: lanes.Lane, batches: Sequence[Any] | None, options: Options
) -> certificate.Certificate:
    """Returns what a comparison of two processes finds; without batches, NEW's file has them."""
    batches = batches or _ask_batches(new)
    for lane in (old, new):
        lane.call("open", batches)
    run = _Run(_build_pair(old, new, batches, options), options)
    difference, cause = run.find_first()
    return certificate.Certificate(
        old=str(old.source),
        new=str(new.source),
        tolerance=options.tolerance,
        results=tuple(run.results),
        map=run.pair.map.entries,
        notes=tuple(run.notes),
        difference=difference,
        cause=cause,
        trainings=run.trainings,
    )


def _build_pair(old: lanes.Lane, new: lanes.Lane, batches: Sequence[Any], options: Options) -> Pair:
    facts = [lane.call("describe") for lane in (old, new)]
    weights = [one["weights"] for one in facts]
    if options.map is not None and options.map.exists():
        found = variable_map.read(options.map, *weights)
    else:
        found = variable_map.match(*weights)
    values = _perturb(old.call("get_values"))
    pair = Pair(old, new, facts[0], facts[1], batches, options.tolerance, found, values)
    old.call("set_values", values)
    pair.set_map(found)
    return pair


def _perturb(values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Returns values of which none is constant, so that no two variables look alike."""
    random = np.random.default_rng(0)
    return [
        (one + random.uniform(0.05, 0.25, one.shape)).astype(one.dtype) if np.ptp(one) == 0 else one
        for one in values
    ]


class _Run:
    """One comparison, and what it has found so far."""

    def __init__(self, pair: Pair, options: Options) -> None:
        self.pair = pair
        self.results: list[certificate.StageResult] = []
        self.notes: list[str] = []
        self.trainings: certificate.ShortTrainings | None = None
        self._options = options

    def find_first(self) -> tuple[Difference | None, str]:
        """Returns the first difference and its cause."""
        found: tuple[Difference | None, str] = (None, "")
        old: Any = None
        new: Any = None
        for stage in stages.COMPUTED:
            old, new = (self.pair.compute(lane, stage) for lane in (self.pair.old, self.pair.new))
            if stage in stages.PASSES:
                self._check_repeatable(stage, old, new)
            found = self._compare(stage, old, new)
            if found[0] is not None:
                return found
        dropout = causes.find_dropout(self.pair, old[0], new[0])
        self._note(Stage.DROPOUT, 0.0, dropout is None)
        if dropout is not None:
            return Difference(Stage.DROPOUT, 0, dropout[0], 0.0), dropout[1]
        seeds = range(self._options.seeds)
        values = [self.pair.old.call("get_values", seed) for seed in seeds]
        found = self._compare_fresh(values)
        return found if found[0] is not None else self._compare_trainings(values)

    def _note(self, stage: Stage, size: float, is_equal: bool) -> None:
        self.results.append(certificate.StageResult(stage.value, size, is_equal))

    def _compare(self, stage: Stage, old: Any, new: Any) -> tuple[Difference | None, str]:
        pair = self.pair
        first = pair.compare(stage, old, new)
        is_map_given = self._options.map is not None and self._options.map.exists()
        if stage is Stage.INFERENCE and not is_map_given:
            while first is not None and (better := causes.find_better_map(pair, first, old)):
                self.notes.append(f"The map was found by trying: {better[0]}.")
                pair.set_map(better[1])
                new = pair.compute(pair.new, stage)
                first = pair.compare(stage, old, new)
        is_update = first is not None and stage is Stage.UPDATES
        if is_update and (note := causes.correct_variances(pair, old, new)):
            self.notes.append(note)
        if first is not None and stage not in stages.PASSES:
            noise = pair.compute_noise(stage)
            first = pair.compare(stage, old, new, noise)
        self._note(stage, pair.measure(stage, old, new), first is None)
        if first is None:
            return None, ""
        return first, causes.find_cause(pair, first, old, new, is_map_given=is_map_given)

    def _check_repeatable(self, stage: Stage, old: Any, new: Any) -> None:
        for lane, result in ((self.pair.old, old), (self.pair.new, new)):
            again = self.pair.compute(lane, stage)
            pairs = zip(result["layers"], again["layers"], strict=False)
            for (name, first), (_, second) in pairs:
                if first.shape != second.shape or not np.allclose(
                    first, second, atol=1e-5, equal_nan=True
                ):
                    raise errors.ConfigError(
                        f"{lane.source.role} {lane.source}: {name} is not the same in two passes "
                        "over a batch, though dropout is off. Take its random numbers by a seed, "
                        "or tf.nn.dropout or keras.layers.Dropout."
                    )

    def _compare_fresh(self, values: Sequence[Any]) -> tuple[Difference | None, str]:
        older = [self.pair.map.apply(each) for each in values]
        newer = [self.pair.new.call("get_values", seed) for seed in range(len(values))]
        for number, facts in enumerate(self.pair.new_facts["weights"]):
            first, second = ([one[number] for one in each] for each in (older, newer))
            if text := fresh_weights.find_difference(first, second):
                self._note(Stage.FRESH, 0.0, False)
                place = Difference(Stage.FRESH, number, repr(facts["name"]), 0.0, number)
                return place, f"default initialiser: {text}"
        self._note(Stage.FRESH, 0.0, True)
        return None, ""

    def _compare_trainings(self, values: Sequence[Any]) -> tuple[Difference | None, str]:
        pair, steps = self.pair, self._options.steps
        losses: list[tuple[float, float]] = []
        for seed, start in enumerate(values):
            random = np.random.default_rng(seed)
            count = -(-steps // len(pair.batches))
            order = np.concatenate([random.permutation(len(pair.batches)) for _ in range(count)])
            pair.old.call("set_values", start)
            pair.new.call("set_values", pair.map.apply(start))
            arguments = (pair.batches, order[:steps].tolist(), seed)
            losses.append((pair.old.call("train", *arguments), pair.new.call("train", *arguments)))
        old, new = zip(*losses, strict=True)
        self.trainings = found = certificate.ShortTrainings(steps, old, new)
        size = abs(sum(found.interval) / 2)
        self._note(Stage.SHORT_TRAINING, size, found.is_equal)
        if found.is_equal:
            return None, ""
        low, high = found.interval
        place = f"the final loss of {len(old)} seeds (95 % interval {low:+.2g} to {high:+.2g})"
        return Difference(Stage.SHORT_TRAINING, 0, place, size), ""


def _read_batches(path: pathlib.Path, size: int) -> list[Any]:
    """Returns the batches of an archive of arrays: `x` or named columns, `y`, `sample_weight`."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile, AttributeError, EOFError) as error:
        raise errors.ConfigError(
            f"--batch {path}: expected an .npz file of arrays: {error}"
        ) from error
    rows = {name: len(value) if value.ndim else 0 for name, value in arrays.items()}
    if "y" not in arrays or len(arrays) < 2 or len(set(rows.values())) != 1 or not rows["y"]:
        shown = ", ".join(f"{name} {list(value.shape)}" for name, value in arrays.items())
        raise errors.ConfigError(
            f"--batch {path}: got {shown or 'nothing'}, expected x or named columns, and y, with "
            "the same number of rows."
        )
    y, weights = arrays.pop("y"), arrays.pop("sample_weight", None)
    x: Any = arrays["x"] if list(arrays) == ["x"] else arrays
    return [
        stages.slice_batch((x, y, weights), slice(start, start + size))
        for start in range(0, len(y), size)
    ]


def _ask_batches(lane: lanes.Lane) -> list[Any]:
    batches = lane.call("batches")
    if not batches:
        raise errors.ConfigError(
            f"--batch: missing, and {lane.source.path} has no function batches() that returns some "
            "(x, y). Give one of them."
        )
    return list(batches)
