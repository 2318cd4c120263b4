"""Comparison of two runs that should be equal, by the receipts of their checkpoints."""

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from quintain import errors
from quintain.checkpoints import checkpoints, receipts
from quintain.config import provenance
from quintain.files import file_io, file_paths, literal_paths
from quintain.run import config_change

COMPARED: Final = ("weights", "optimizer", "random")
"""Parts that have to be equal to the bit. Loops may be cut differently, and the state of a data
iterator has other bits after a restore: of the data, batches are counted."""

_TOLERANCES: Final = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)


@dataclass(frozen=True)
class Comparison:
    """Result of a comparison."""

    equal_steps: Sequence[int]
    """Steps with receipts in both runs at which all is equal, before the first that differs."""

    step: int | None
    """First step that differs; None if there is none."""

    names: Sequence[str]
    """Values that differ there; parts of the state, if a checkpoint there is deleted."""

    facts: Sequence[str]
    """Facts that differ, at that step or at the last one."""

    tolerance: str
    """How far the weights are apart, where both checkpoints are there; else empty."""

    def describe(self) -> str:
        """Returns what was found, for people."""
        facts = "".join(f"\n  {one}" for one in self.facts)
        if self.step is None:
            note = f", although these facts differ:{facts}" if facts else "."
            steps = ", ".join(map(str, self.equal_steps))
            return f"equal to the bit at {errors.cut(steps)}{note}"
        before = f" (equal to the bit at {self.equal_steps[-1]})" if self.equal_steps else ""
        cause = (
            f"Likely causes, for these facts differ:{facts}"
            if facts
            else "No fact differs. Likely causes: operations without a fixed order (GPUs, "
            "several threads), or state that no checkpoint holds."
        )
        return (
            f"the first difference is at step {self.step}{before}, in "
            f"{errors.enumerate_some(self.names, 5)}{self.tolerance}. {cause}"
        )


def compare(first: str, second: str, *, start: int = -1) -> Comparison:
    """Compares two runs at the steps at which both have a receipt.

    Args:
        first: Directory of a run.
        second: Directory of the other.
        start: Step after which they are compared.

    Raises:
        CheckpointError: If they have no such step in common.
    """
    left, right = read_heads(first), read_heads(second)
    steps = [step for step in sorted(left.keys() & right.keys()) if step > start]
    if not steps:
        raise errors.CheckpointError(
            f"{first} and {second} have no step with a receipt in common. The first has "
            f"{_list_steps(left)}, the second {_list_steps(right)}."
        )
    equal: list[int] = []
    for step in steps:
        one, other = left[step], right[step]
        parts = [name for name in COMPARED if one["parts"][name] != other["parts"][name]]
        if one["batches"] != other["batches"]:
            parts.append(f"data (batches {one['batches']} and {other['batches']})")
        if parts:
            places = [_find_checkpoint(run, step) for run in (first, second)]
            facts = find_facts(first, one, second, other)
            names, tolerance = _compare_values(places, parts)
            return Comparison(equal, step, names, facts, tolerance)
        equal.append(step)
    last = steps[-1]
    return Comparison(equal, None, [], find_facts(first, left[last], second, right[last]), "")


def read_heads(directory: str) -> dict[int, Mapping[str, Any]]:
    """Returns the heads of a run's receipts by step, those of deleted checkpoints among them.

    Raises:
        CheckpointError: If there are none, or the chain is damaged.
    """
    heads: dict[int, Mapping[str, Any]] = {
        head["step"]: head for head in receipts.read_chain(directory)
    }
    for path in checkpoints.list_checkpoints(directory):
        if file_io.exists(path + receipts.SUFFIX):
            head = receipts.read(path + receipts.SUFFIX).head
            heads[head["step"]] = head
    if not heads:
        raise errors.CheckpointError(
            f"{directory}: there is no receipt here. Give the directory of a run whose "
            "checkpoints have receipts; those of versions without them have none."
        )
    return heads


def find_facts(
    first: str, left: Mapping[str, Any], second: str, right: Mapping[str, Any]
) -> list[str]:
    """Returns the facts that differ between two receipts, each with both values."""
    found = find_environment(left, right)
    for name in ("code", "data", "config"):
        if left[name] == right[name]:
            continue
        details = [_find_details(first, left, name), _find_details(second, right, name)]
        if None in details:
            found.append(f"{name}: in receipts whose checkpoints are deleted")
            continue
        flat = [provenance.flatten(one or {}) for one in details]
        found += [
            f"{name} {path}: {old!r} -> {new!r}"
            for path, old, new in provenance.diff_dicts(flat[0], flat[1])
            if name != "config" or not _is_free(path)
        ]
    return found


def find_environment(left: Mapping[str, Any], right: Mapping[str, Any]) -> list[str]:
    """Returns the versions, kernels and machines that differ between the heads of two receipts."""
    return [
        f"environment {name}: {old} -> {new}"
        for name, old, new in provenance.diff_dicts(left["environment"], right["environment"])
    ]


def _is_free(path: str) -> bool:
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in config_change.FREE_FIELDS)


def _find_details(directory: str, head: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """Returns the fact of which a head has the hash, from any receipt that has it."""
    for path in checkpoints.list_checkpoints(directory):
        if file_io.exists(path + receipts.SUFFIX):
            receipt = receipts.read(path + receipts.SUFFIX)
            if receipt.head[name] == head[name]:
                return dict(receipt.facts[name])
    return None


def _find_checkpoint(directory: str, step: int) -> str | None:
    path = file_paths.join(directory, f"ckpt-{step}")
    is_there = path in checkpoints.list_checkpoints(directory)
    return path if is_there and file_io.exists(path + receipts.SUFFIX) else None


def _compare_values(places: Sequence[str | None], parts: Sequence[str]) -> tuple[list[str], str]:
    """Returns the values that differ, and how far weights are apart."""
    if None in places:
        return list(parts), ""
    left, right = (receipts.read(f"{place}{receipts.SUFFIX}").leaves for place in places)
    keys = [
        key
        for part in parts
        for key in sorted(left.keys() | right.keys())
        if receipts.find_part(key) == part and left.get(key) != right.get(key)
    ]
    shared = [key for key in keys if key in left and key in right]
    distance = _find_distance(places, [key for key in shared if key.endswith("VARIABLE_VALUE")])
    others = [part for part in parts if part not in COMPARED]
    return [receipts.shorten(key) for key in keys] + others, distance


def _find_distance(places: Sequence[str | None], keys: Sequence[str]) -> str:
    """Returns the largest difference of the weights, relative to the largest of each."""
    readers = [literal_paths.read(str(place)) for place in places]
    largest = 0.0
    for key in keys:
        one, other = (np.asarray(reader.get_tensor(key)) for reader in readers)
        if receipts.find_part(key) != "weights" or one.shape != other.shape or not one.size:
            continue
        one, other = one.astype(np.float64), other.astype(np.float64)
        scale = max(float(np.max(np.abs(one))), float(np.finfo(np.float32).tiny))
        largest = max(largest, float(np.max(np.abs(one - other))) / scale)
    if not largest:
        return ""
    within = next((one for one in _TOLERANCES if largest <= one), None)
    tolerance = "in no tolerance class" if within is None else f"within {within:g}"
    return f"; weights are apart by {largest:.1e} of the largest, {tolerance}"


def _list_steps(heads: Mapping[int, Any]) -> str:
    return errors.enumerate_some([str(step) for step in sorted(heads)])
