"""Map of the variables of a port to those of the older model; users may edit its file."""

import dataclasses
import itertools
import json
import math
import pathlib
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from quintain import errors

_KINDS: Final = {
    "weights": "kernel", "w": "kernel", "biases": "bias", "b": "bias", "embedding": "embeddings",
    "embedding_weights": "embeddings",
}  # fmt: skip
_ORDERS: Final = ((0, 1, 2, 3), (0, 2, 1, 3), (0, 1, 3, 2), (1, 0, 2))
"""Orders of gates that other libraries and TensorFlow 1 have; they are tried first."""

_MOST_LISTED: Final = 3

Weight = Mapping[str, Any]
"""Name, shape, trainable or not, and number of the layer of a variable."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """Origin of a variable of the port, and what is done to its values."""

    new: str
    old: str
    beside: str | None = None
    """Older variable whose columns follow, where the port's holds both."""

    rows: tuple[int, int] | None = None
    """First row of the older variable, and the one after the last, where it holds two."""

    transpose: tuple[int, ...] | None = None
    """Order of the older variable's axes."""

    gates: tuple[int, ...] | None = None
    """Number of the older variable's block of columns for each block."""

    add: tuple[float, ...] | None = None
    """What is added to each block, such as a forget bias that was part of the code."""

    def apply(self, value: np.ndarray, shape: Sequence[int], *, is_gradient: bool) -> np.ndarray:
        """Returns a value, or a gradient, of the older variable as one of the port's."""
        if self.rows is not None:
            value = value[slice(*self.rows)]
        if self.transpose is not None:
            value = value.transpose(self.transpose)
        value = value.reshape(shape)
        if self.gates is not None:
            blocks = np.split(value, len(self.gates), axis=-1)
            value = np.concatenate([blocks[number] for number in self.gates], axis=-1)
        if self.add is not None and not is_gradient:
            value = value + np.repeat(self.add, shape[-1] // len(self.add)).astype(value.dtype)
        return np.ascontiguousarray(value)


class VariableMap:
    """Entries for all variables of a port, in its order."""

    def __init__(
        self, entries: Sequence[Entry], old: Sequence[Weight], new: Sequence[Weight]
    ) -> None:
        """Stores the entries and the variables that they name."""
        self.entries = tuple(entries)
        self._numbers = {one["name"]: number for number, one in enumerate(old)}
        self._shapes = [one["shape"] for one in new]
        self._old, self._new = old, new

    def apply(self, values: Sequence[Any], *, is_gradient: bool = False) -> list[Any]:
        """Returns the older model's values in the order of the port."""
        found = [self._get(values, entry) for entry in self.entries]
        return [
            None if value is None else entry.apply(value, shape, is_gradient=is_gradient)
            for entry, value, shape in zip(self.entries, found, self._shapes, strict=True)
        ]

    def _get(self, values: Sequence[Any], entry: Entry) -> Any:
        value = values[self._numbers[entry.old]]
        if value is None or entry.beside is None:
            return value
        return np.concatenate([value, values[self._numbers[entry.beside]]], axis=-1)

    def replace(self, changes: Mapping[int, Mapping[str, Any]]) -> "VariableMap":
        """Returns a map with other fields of entries."""
        entries = [
            dataclasses.replace(entry, **changes.get(number, {}))
            for number, entry in enumerate(self.entries)
        ]
        return VariableMap(entries, self._old, self._new)

    def list_alternatives(self) -> Iterator[tuple[str, "VariableMap"]]:
        """Yields other maps that fit the shapes, and what is different in them."""
        layers: dict[int, list[int]] = {}
        for number, one in enumerate(self._new):
            layers.setdefault(one["layer"], []).append(number)
        yield from self._list_gate_orders(list(layers.values()))
        for first, second in itertools.combinations(layers.values(), 2):
            if [self._shapes[n] for n in first] == [self._shapes[n] for n in second]:
                pairs = dict(zip(first + second, second + first, strict=True))
                changes = {n: {"old": self.entries[other].old} for n, other in pairs.items()}
                names = f"{self._new[first[0]]['name']} and {self._new[second[0]]['name']}"
                yield f"{names} exchanged", self.replace(changes)
        for number, one in enumerate(self._new):
            entry = self.entries[number]
            shape = self._old[self._numbers[entry.old]]["shape"]
            for axes in itertools.permutations(range(len(shape))):
                turned = [shape[axis] for axis in axes]
                fits = [n for n in turned if n > 1] == [n for n in one["shape"] if n > 1]
                if (
                    fits
                    and axes != (entry.transpose or tuple(range(len(shape))))
                    and not entry.rows
                ):
                    changed = self.replace({number: {"transpose": axes}})
                    yield f"{one['name']} transposed to {list(axes)}", changed

    def _list_gate_orders(
        self, layers: Sequence[Sequence[int]]
    ) -> Iterator[tuple[str, "VariableMap"]]:
        """Yields orders of gates, those of all layers of a kind first."""
        kinds: dict[int, list[Sequence[int]]] = {}
        for numbers in layers:
            for number in numbers:
                if "recurrent_kernel" in self._new[number]["name"]:
                    rows, columns = self._shapes[number][-2:]
                    kinds.setdefault(columns // rows, []).append(numbers)
        for count, group in kinds.items():
            for each in ([group] if len(group) > 1 else []) + [[numbers] for numbers in group]:
                yield from self._list_orders_of(count, each)

    def _list_orders_of(
        self, count: int, layers: Sequence[Sequence[int]]
    ) -> Iterator[tuple[str, "VariableMap"]]:
        numbers = [number for each in layers for number in each]
        biases = [n for n in numbers if len(self._shapes[n]) == 1]
        letters = "ifco" if count == 4 else "zrh"
        forget = tuple(float(letter == "f") for letter in letters)
        name = " and ".join(self._new[each[0]]["name"].rpartition("/")[0] for each in layers)
        for add in (None, forget) if count == 4 and biases else (None,):
            for order in dict.fromkeys((*_ORDERS, *itertools.permutations(range(count)))):
                if len(order) != count or (order == tuple(range(count)) and add is None):
                    continue
                changes: dict[int, dict[str, Any]] = {n: {"gates": order} for n in numbers}
                changes |= {n: {"gates": order, "add": add} for n in biases}
                written = "".join(letters[order.index(n)] for n in range(count))
                bias = ", and 1 is added to the bias of f by OLD's code" if add else ""
                yield f"gates of {name} in the order {written} in OLD{bias}", self.replace(changes)


def match(old: Sequence[Weight], new: Sequence[Weight]) -> VariableMap:
    """Returns a map by names, then by kinds and shapes in order, then by sizes.

    Raises:
        ConfigError: If a variable is left.
    """
    partners: dict[int, Entry] = {}
    left = dict(enumerate(old))
    passes: tuple[Callable[[Weight], Hashable], ...] = (
        lambda one: (_clean(one["name"]), one["shape"], one["is_trainable"]),
        lambda one: (_find_kind(one["name"]), one["shape"], one["is_trainable"]),
        lambda one: (one["shape"], one["is_trainable"]),
        lambda one: (math.prod(one["shape"]), one["is_trainable"]),
        lambda one: (math.prod(one["shape"]),),
    )
    for key in passes:
        groups: dict[Hashable, list[int]] = {}
        for number, one in enumerate(new):
            if number not in partners:
                groups.setdefault(key(one), []).append(number)
        for wanted, numbers in groups.items():
            same = [number for number, one in left.items() if key(one) == wanted]
            if len(same) == len(numbers):
                for number, other in zip(numbers, same, strict=True):
                    partners[number] = Entry(new[number]["name"], left.pop(other)["name"])
    _split_kernels(partners, left, new)
    missing = [number for number in range(len(new)) if number not in partners]
    if missing or left:
        raise errors.ConfigError(_describe_rest([new[n] for n in missing], list(left.values())))
    return VariableMap([partners[number] for number in range(len(new))], old, new)


def _split_kernels(
    partners: dict[int, Entry], left: dict[int, Weight], new: Sequence[Weight]
) -> None:
    """Adds entries for kernels of older RNNs, which hold the input's rows above the state's.

    Older GRUs have the gates' and the candidate's kernels and biases, with a gate for resetting
    first.
    """
    joined = {
        (number, other): (*first["shape"][:-1], first["shape"][-1] + second["shape"][-1])
        for (number, first), (other, second) in itertools.combinations(left.items(), 2)
        if first["shape"][:-1] == second["shape"][:-1]
        and first["shape"][-1:] == (2 * math.prod(second["shape"][-1:]),)
    }
    shapes = {(number,): one["shape"] for number, one in left.items()} | joined
    for first in range(len(new)):
        upper, lower = (one["shape"] for one in (*new[first : first + 2], {"shape": ()})[:2])
        rows = upper[0] if upper else 0
        total = (rows + lower[0], lower[-1]) if len(upper) == len(lower) == 2 else None
        for numbers, shape in shapes.items():
            if first in partners or any(number not in left for number in numbers):
                continue
            is_kernel = total == shape and first + 1 not in partners
            if not is_kernel and (len(numbers) == 1 or shape != upper):
                continue
            names = [left.pop(number)["name"] for number in numbers]
            both = {"beside": names[1], "gates": (1, 0, 2)} if names[1:] else {}
            parts = ((0, rows), (rows, rows + lower[0])) if is_kernel else (None,)
            for number, part in enumerate(parts, first):
                partners[number] = Entry(new[number]["name"], names[0], rows=part, **both)


def _describe_rest(new: Sequence[Weight], old: Sequence[Weight]) -> str:
    def show(rest: Sequence[Weight]) -> str:
        shown = [f"{one['name']} {list(one['shape'])}" for one in rest[:_MOST_LISTED]]
        return ", ".join(shown + ["..."] * (len(rest) > _MOST_LISTED)) or "nothing"

    text = f"The variables can't be mapped: left in OLD: {show(old)}; left in NEW: {show(new)}."
    biases = [(a["shape"], b["shape"]) for a, b in itertools.product(old, new)]
    if any(sorted(pair, key=len)[1] == (2, *sorted(pair, key=len)[0]) for pair in biases):
        is_newer = any(b == (2, *a) for a, b in biases)
        return (
            f"{text} Likely cause: GRU reset_after, which is {not is_newer} in OLD and {is_newer} "
            f"in NEW; set reset_after={not is_newer} in NEW."
        )
    return f"{text} Make the models alike, or write the entries into --map."


def _clean(name: str) -> str:
    """Returns the last two parts of a name without numbers, of which Keras makes its own."""
    parts = [re.sub(r"_\d+$", "", part) for part in name.split("/")]
    return "/".join([*parts[-2:-1], _KINDS.get(parts[-1], parts[-1])])


def _find_kind(name: str) -> str:
    return _clean(name).rpartition("/")[2]


def read(path: pathlib.Path, old: Sequence[Weight], new: Sequence[Weight]) -> VariableMap:
    """Returns the map of a file.

    Raises:
        ConfigError: If it is no map of these variables.
    """
    known = {field.name for field in dataclasses.fields(Entry)}
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        entries = {row["new"]: Entry(**{k: _to_tuple(v) for k, v in row.items()}) for row in rows}
    except (ValueError, TypeError, KeyError) as error:
        raise errors.ConfigError(
            f"{path}: expected a list of entries with {', '.join(sorted(known))}: {error}"
        ) from error
    shapes = {one["name"]: one["shape"] for one in old}
    for one in new:
        entry = entries.get(one["name"])
        olds = [] if entry is None else [each for each in (entry.old, entry.beside) if each]
        unknown = [name for name in olds if name not in shapes]
        if entry is None or unknown:
            what = (
                f"no entry for {one['name']!r}"
                if entry is None
                else f"no variable {unknown[0]!r} in OLD"
            )
            raise errors.ConfigError(
                f"{path}: {what}.{errors.suggest(one['name'], [*entries, *shapes])}"
            )
        try:
            value = np.concatenate([np.zeros(shapes[name]) for name in olds], axis=-1)
            value = entry.apply(value, one["shape"], is_gradient=False)
        except (ValueError, IndexError) as error:
            raise errors.ConfigError(f"{path}: {entry.new}: {error}") from error
        assert value.shape == tuple(one["shape"]), f"{entry} gave {value.shape}"
    return VariableMap([entries[one["name"]] for one in new], old, new)


def _to_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def to_json(entries: Sequence[Entry]) -> str:
    """Returns a map as a file has it, with the fields that matter."""
    rows = [
        {key: value for key, value in dataclasses.asdict(entry).items() if value is not None}
        for entry in entries
    ]
    return "[\n" + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n]\n"
