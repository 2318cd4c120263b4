"""Likely causes of a difference: known alternatives, computed or tried on the port."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from quintain import errors
from quintain.certify import stages, variable_map
from quintain.certify.stages import Difference, Pair, Stage

_EPSILONS: Final = (1e-3, 1e-5, 1e-7, 1e-8, 1e-6, 1e-12, 1e-4, 1e-2)
_PADDINGS: Final = ("same", "valid", "causal")
_ZERO_PADDINGS: Final = (((0, 1), (0, 1)), ((1, 1), (1, 1)), ((1, 0), (1, 0)))
_MOVING: Final = ("moving_mean", "moving_variance")
_MOST_MAPS: Final = 300
_MOST_LEFT: Final = 0.1
"""Share of a difference that a cause may leave to another one."""

_CLOSE: Final = 1e-3
"""Relative error of a number that is computed from differences of losses."""

_NO_TRAINING: Final = (
    "updates of moving averages and dropout: `call` in NEW has no argument `training`, without "
    "which the steps of Keras 3 run it as in inference"
)

Change = tuple[int | None, str, Any]


def find_cause(
    pair: Pair, difference: Difference, old: Any, new: Any, *, is_map_given: bool
) -> str:
    """Returns the cause; empty if none of the known ones explains the difference."""
    fits: dict[Stage, tuple[Callable[..., str], ...]] = {
        Stage.INFERENCE: (_fit_factor,),
        Stage.TRAINING: (_fit_factor,),
        Stage.LOSS: (_fit_reduction, _fit_smoothing, _fit_penalty),
        Stage.GRADIENTS: (_fit_penalty,),
        Stage.UPDATES: (_fit_moving_average,),
    }
    for fit in fits[difference.stage]:
        if text := fit(pair, difference, old, new):
            return text
    text = _try_changes(pair, difference, old)
    return text or (_try_maps(pair, difference, old) if is_map_given else "")


def _try_changes(pair: Pair, difference: Difference, old: Any) -> str:
    listed = (
        _list_optimizer_changes(pair)
        if difference.stage is Stage.UPDATES
        else _list_layer_changes(pair)
    )
    best, best_text = difference.size * _MOST_LEFT, ""
    try:
        for changes, text in listed:
            left = _measure_rest(pair, difference, old, changes)
            if left == 0.0:
                return text
            if left < best:
                best, best_text = left, f"{text} but for {left:.2g}, so that it is not the only one"
    finally:
        pair.new.call("change", [])
    return best_text


def _try_maps(pair: Pair, difference: Difference, old: Any) -> str:
    found = find_better_map(pair, difference, old)
    return f"{found[0]}; write it into the map" if found else ""


def find_better_map(
    pair: Pair, difference: Difference, old: Any
) -> tuple[str, variable_map.VariableMap] | None:
    """Returns a map by which the first difference comes later, and its change; None if none."""
    former = pair.map
    try:
        for text, other in itertools.islice(former.list_alternatives(), _MOST_MAPS):
            pair.set_map(other)
            if _measure_rest(pair, difference, old, ()) == 0.0:
                return text, other
    finally:
        pair.set_map(former)
    return None


def _measure_rest(pair: Pair, difference: Difference, old: Any, changes: Sequence[Change]) -> float:
    """Returns what changes of the port leave of a difference: 0 if the first one comes later."""
    try:
        pair.new.call("change", list(changes))
        new = pair.compute(pair.new, difference.stage)
        other = pair.compare(difference.stage, old, new)
    except errors.ConfigError:  # A padding may not fit.
        return math.inf
    if other is None or other.index > difference.index:
        return 0.0
    return other.size if other.index == difference.index else math.inf


def _list_layer_changes(pair: Pair) -> Iterator[tuple[list[Change], str]]:
    layers = pair.new_facts["layers"]
    if not pair.new_facts["takes_training"]:
        changes: list[Change] = [(None, "takes_training", True)]
        yield changes, _NO_TRAINING
    older = [(name, value) for one in pair.old_facts["layers"] for name, value in one.items()]
    for name, cause in (
        ("epsilon", "epsilon of normalisation"),
        ("mask_zero", "mask"),
        ("padding", "padding"),
        ("symmetric_padding", "padding"),
    ):
        key = "padding" if name == "symmetric_padding" else name
        owners = [number for number, one in enumerate(layers) if key in one]
        seen = [value for other, value in older if other == name]
        groups = [[number] for number in owners]
        for owned in [*groups, owners] if len(owners) > 1 else groups:
            former = layers[owned[0]][key]
            for value in _list_values(name, former, seen):
                changes = [(number, name, value) for number in owned]
                where = " and ".join(f"layer {layers[number]['name']!r}" for number in owned)
                shown = "symmetric" if name == "symmetric_padding" else repr(value)
                yield changes, f"{cause}: {where} has {former!r} in NEW; with {shown} it agrees"


def _list_values(name: str, former: Any, seen: Sequence[Any]) -> list[Any]:
    if name == "epsilon":
        values: Sequence[Any] = (*seen, *_EPSILONS)
    elif name == "mask_zero":
        values = (True, False)
    elif name == "symmetric_padding":
        values = (True,) if former == "same" else ()
    else:
        values = _PADDINGS if isinstance(former, str) else _ZERO_PADDINGS
    return [one for one in dict.fromkeys(values) if one != former]


def _list_optimizer_changes(pair: Pair) -> Iterator[tuple[list[Change], str]]:
    facts = pair.new_facts["optimizer"]
    older = pair.old_facts["optimizer"]
    text = (
        "repeated rows of an embedding's gradient: Keras 3 squares them one by one, OLD their sum; "
        "let the optimizer's apply() pass them through tf.convert_to_tensor"
    )
    yield [(None, "sums_rows", True)], text
    if "epsilon" in facts:
        for value in dict.fromkeys((older.get("epsilon"), *_EPSILONS, 1e-10)):
            if value is not None and value != facts["epsilon"]:
                here = f"epsilon of {facts['class']}: {facts['epsilon']!r} in NEW"
                yield [(None, "epsilon", value)], f"{here}; with {value!r} it agrees"
    if facts["has_schedule"]:
        for steps in (1, -1):
            where = "behind" if steps > 0 else "ahead of"
            text = f"learning-rate schedule off by one: NEW is a step {where} OLD"
            yield [(None, "learning_rate_shift", steps)], text
        if facts.get("momentum"):
            text = "momentum under a decaying rate: the velocity holds rates in NEW, not in OLD"
            yield [(None, "bare_velocity", True)], text
    if facts.get("weight_decay"):
        text = f"L2 as loss or as decay: NEW decays by {facts['weight_decay']!r}; without it agrees"
        yield [(None, "weight_decay", None)], text


def _fit_factor(pair: Pair, difference: Difference, old: Any, new: Any) -> str:
    """Finds a layer of the port whose output is a multiple of the older one's."""
    rates = [one["rate"] for one in pair.new_facts["layers"] if one.get("rate")]
    for name, value in reversed(new["layers"][: difference.index + 1]):
        for _, other in old["layers"]:
            if other.size != value.size or not np.any(value):
                continue
            flat, wanted = value.reshape(-1), other.reshape(-1)
            factor = float(flat @ wanted / (flat @ flat))
            if not np.allclose(flat * factor, wanted, rtol=1e-4, atol=1e-6):
                continue
            for rate in dict.fromkeys((*rates, *old["rates"], *new["rates"])):
                if any(math.isclose(factor, x, rel_tol=1e-3) for x in (1 - rate, 1 / (1 - rate))):
                    return (
                        f"dropout scaling: OLD has {factor:.4g} times the values of layer "
                        f"{name!r}, for a rate of {rate:.4g}"
                    )
    return ""


def _fit_reduction(pair: Pair, difference: Difference, old: Any, new: Any) -> str:
    batches = pair.list_probes(pair.batches)
    ratios = [
        (a["loss"] - a["penalty"]) / ((b["loss"] - b["penalty"]) or math.nan)
        for a, b in zip(old, new, strict=True)
    ]
    rows = [stages.count_rows(one) for one in batches]
    labels = [stages.list_arrays(one[1])[0] for one in batches]
    lengths = [labels[0].size // rows[0]] if labels[0].ndim > 1 else []
    lengths += [one.shape[1] for one in stages.list_arrays(batches[0][0])[:1] if one.ndim == 2]
    shares = [float(np.mean(one != 0)) for one in labels]
    weights = [float(np.mean(one[2])) if one[2] is not None else 1.0 for one in batches]
    explanations: list[tuple[str, Sequence[float]]] = [
        ("OLD sums over the examples, NEW takes the mean", rows),
        ("OLD takes the mean over the examples, NEW sums", [1 / one for one in rows]),
        (
            "OLD's mean leaves masked labels out, NEW's counts them",
            [1 / max(one, 1e-9) for one in shares],
        ),
        ("OLD's mean counts masked labels, NEW's leaves them out", shares),
        (
            "OLD divides by the sum of weights, NEW by their number",
            [1 / max(one, 1e-9) for one in weights],
        ),
        ("OLD divides by the number of weights, NEW by their sum", weights),
    ]
    for length in lengths:
        explanations += [
            (f"OLD sums over {length} values of an example, NEW takes the mean", [length] * 3),
            (f"OLD takes the mean over {length} values, NEW sums", [1 / length] * 3),
            ("OLD sums over all values, NEW takes the mean", [length * one for one in rows]),
            ("OLD takes the mean over all values, NEW sums", [1 / (length * one) for one in rows]),
        ]
    for text, wanted in explanations:
        if not np.allclose(wanted, 1.0) and np.allclose(ratios, wanted, rtol=_CLOSE):
            return f"reduction of the loss: {text}"
    return ""


def _fit_smoothing(pair: Pair, difference: Difference, old: Any, new: Any) -> str:
    found = []
    for batch, *results in zip(pair.list_probes(pair.batches), old, new, strict=True):
        (_, outputs), *others = pair.new.call("outputs", batch, True)["outputs"]
        ends = None if others else _find_entropies(outputs, stages.list_arrays(batch[1])[0])
        if ends is None or math.isclose(*ends):
            return ""
        plain, even = ends
        found.append([(one["loss"] - one["penalty"] - plain) / (even - plain) for one in results])
    rates = np.asarray(found)
    means = rates.mean(axis=0)
    is_smoothing = np.all(np.ptp(rates, axis=0) < _CLOSE) and np.all(
        (means > -_CLOSE) & (means < 1)
    )
    if not is_smoothing or abs(means[0] - means[1]) < _CLOSE:
        return ""
    older, newer = (round(float(abs(one)), 4) for one in means)
    return f"label smoothing: {older:g} in OLD, {newer:g} in NEW"


def _find_entropies(outputs: np.ndarray, labels: np.ndarray) -> tuple[float, float] | None:
    """Returns the cross entropy of the labels, and that of a target that is even; None if none."""
    outputs = outputs.astype(np.float64)
    if outputs.shape == labels.shape or outputs.shape == (*labels.shape, 1):
        labels = labels.reshape(outputs.shape)
        is_binary = outputs.shape[-1] == 1 or not np.allclose(labels.sum(-1), 1.0)
        if is_binary:
            if np.all((outputs >= 0) & (outputs <= 1)):
                outputs = np.clip(outputs, 1e-7, 1 - 1e-7)
                outputs = np.log(outputs) - np.log1p(-outputs)
            one, zero = np.logaddexp(0, -outputs), np.logaddexp(0, outputs)
            plain = labels * one + (1 - labels) * zero
            return float(plain.mean()), float((one + zero).mean() / 2)
    elif outputs.ndim == labels.ndim + 1 or (labels.ndim and labels.shape[-1:] == (1,)):
        labels = np.eye(outputs.shape[-1])[labels.reshape(outputs.shape[:-1]).astype(int)]
    else:
        return None
    if np.all(outputs >= 0) and np.allclose(outputs.sum(-1), 1.0, atol=1e-4):
        outputs = np.log(np.clip(outputs, 1e-7, 1.0))
    logs = outputs - np.logaddexp.reduce(outputs, axis=-1, keepdims=True)
    return float(-(labels * logs).sum(-1).mean()), float(-logs.mean(-1).mean())


def _fit_penalty(pair: Pair, difference: Difference, old: Any, new: Any) -> str:
    """Finds gradients that differ by a multiple of the weights, which L2 in the loss adds."""
    weights = pair.map.apply(pair.values)
    mapped = pair.map.apply(old[0]["gradients"], is_gradient=True)
    factors = {}
    for number, (first, second) in enumerate(zip(mapped, new[0]["gradients"], strict=True)):
        weight = weights[number]
        if first is None or second is None or weight is None:
            continue
        gap = (first - second).reshape(-1).astype(np.float64)
        flat = weight.reshape(-1).astype(np.float64)
        factor = float(gap @ flat / (2 * flat @ flat))
        rest = float(np.linalg.norm(gap - 2 * factor * flat))
        size = float(np.linalg.norm(gap))
        if rest < 1e-2 * size and size > 1e-4 * float(np.linalg.norm(second)):
            factors[number] = factor
        elif size > 1e-2 * float(np.linalg.norm(second)):
            return ""  # Something else differs, too.
    if not factors:
        return ""
    number, factor = next(iter(factors.items()))
    name = pair.new_facts["weights"][number]["name"]
    both = old[0]["penalty"] and new[0]["penalty"]
    where = "larger in OLD" if both else "part of the loss in OLD, not in NEW"
    if factor < 0:
        where = "larger in NEW" if both else "part of the loss in NEW, not in OLD"
    decay = pair.new_facts["optimizer"].get("weight_decay")
    also = f", whose optimizer decays weights by {decay!r}" if decay and factor > 0 else ""
    return (
        f"L2 as loss or as decay: {abs(factor):.3g} times the sum of squares of {name!r} is "
        f"{where}{also}"
    )


def _fit_moving_average(pair: Pair, difference: Difference, old: Any, new: Any) -> str:
    """Finds momentum and missing updates of the moving averages of a normalisation."""
    facts = pair.new_facts["weights"][difference.weight]
    if not facts["name"].endswith(_MOVING) or difference.step != 1:
        return ""
    start, first, second = _get_series(pair, difference.weight, old, new)
    moved = [one[0] - start for one in (first, second)]
    for role, step in zip(("OLD", "NEW"), moved, strict=True):
        if float(np.max(np.abs(step))) < 1e-9:
            return f"updates of moving averages are not run in {role}"
    ratio = float(moved[0].reshape(-1) @ moved[1].reshape(-1) / np.sum(moved[1] ** 2))
    if not np.allclose(moved[1] * ratio, moved[0], rtol=1e-2, atol=1e-5):
        return ""
    momentum = _get_momentum(pair, difference.weight)
    older = round(1 - ratio * (1 - momentum), 4)
    convention = (
        ", the convention that 1 - momentum is meant"
        if math.isclose(older, 1 - momentum, abs_tol=1e-3)
        else ""
    )
    return f"momentum of normalisation: {older:g} in OLD, {momentum:g} in NEW{convention}"


def correct_variances(pair: Pair, old: Any, new: Any) -> str:
    """Lets the port's moving variances divide by N - 1, where OLD's fused kernel has done so.

    Keras 2 normalises images with a kernel that counts one value less; Keras 3 counts all.

    Returns:
        A note; empty if there is none to write. The results of the port are changed then.
    """
    corrected = []
    for number, facts in enumerate(pair.new_facts["weights"]):
        if not facts["name"].endswith("moving_variance"):
            continue
        start, first, second = _get_series(pair, number, old, new)
        momentum = _get_momentum(pair, number)
        if not 0 < momentum < 1:
            continue
        plain = (second[0] - momentum * start) / (1 - momentum)
        wanted = (first[0] - momentum * start) / (1 - momentum)
        factor = float(plain.reshape(-1) @ wanted.reshape(-1) / max(np.sum(plain**2), 1e-30))
        if not 1e-7 < factor - 1 <= 1 or not np.allclose(plain * factor, wanted, rtol=1e-3):
            continue
        batches = [pair.batches[n % len(pair.batches)] for n in range(stages.NUM_STEPS)]
        rows = [stages.count_rows(one) for one in batches]
        places = round(factor / (factor - 1) / rows[0])  # Positions of an example.
        former, value = start, start
        for step, count in zip(range(len(second)), rows, strict=True):
            variance = (second[step] - momentum * former) / (1 - momentum)
            former = second[step]
            all_values = max(2, count * places)
            value = momentum * value + (1 - momentum) * variance * all_values / (all_values - 1)
            new[step]["values"][number] = value.astype(start.dtype)
        corrected.append(facts["name"])
    if not corrected:
        return ""
    return (
        f"OLD's moving variances divide by N - 1 (Keras 2's fused kernel), NEW's by N: "
        f"{', '.join(corrected)}. They were compared with that taken into account."
    )


def _get_series(pair: Pair, number: int, old: Any, new: Any) -> tuple[Any, list[Any], list[Any]]:
    start = pair.map.apply(pair.values)[number]
    older = [pair.map.apply(one["values"])[number] for one in old]
    return start, older, [one["values"][number] for one in new]


def _get_momentum(pair: Pair, number: int) -> float:
    layer = pair.new_facts["weights"][number]["layer"]
    return float(pair.new_facts["layers"][layer].get("momentum", 0.99))


def find_dropout(pair: Pair, old: Any, new: Any) -> tuple[str, str] | None:
    """Returns the first dropout whose rate differs, and the cause; None if all agree."""
    if old["rates"] and not new["rates"] and not pair.new_facts["takes_training"]:
        return "dropout 1", _NO_TRAINING
    first, second = (list(dict.fromkeys(round(r, 6) for r in one["rates"])) for one in (old, new))
    for number, rates in enumerate(itertools.zip_longest(first, second), 1):
        if rates[0] != rates[1]:
            shown = [f"{one:g}" if one is not None else "none" for one in rates]
            kept = None not in rates and math.isclose(sum(rates), 1.0, abs_tol=1e-6)
            also = "; one takes the share to keep for the share to drop" if kept else ""
            return (
                f"dropout {number}",
                f"dropout scaling: rate {shown[0]} in OLD, {shown[1]} in NEW{also}",
            )
    return None
