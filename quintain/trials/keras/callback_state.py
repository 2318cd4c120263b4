"""State of Keras callbacks in checkpoints: numbers, texts, arrays and nests of them."""

import pathlib
from collections.abc import Sequence
from typing import Any, Final

import keras
import numpy as np

_ARRAY: Final = "__array__"
_WHOLE: Final = "state"
_LEFT_OUT: Final = frozenset({"_model", "model", "params", "validation_data"})


def save(callbacks: Sequence[keras.callbacks.Callback], path: pathlib.Path) -> list[dict[str, Any]]:
    """Returns the states as plain data; arrays go into a file."""
    arrays: dict[str, np.ndarray] = {}
    states = []
    for callback in callbacks:
        values = vars(callback)
        if hasattr(callback, "get_state"):
            state = callback.get_state()
            values = {_WHOLE: state} if hasattr(callback, "load_state") else state
        state = {}
        for name, value in values.items():
            if name in _LEFT_OUT:
                continue
            kept, plain = _to_plain(value, arrays)
            if kept:
                state[name] = plain
        states.append({"kind": type(callback).__name__, "state": state})
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return states


def restore(
    callbacks: Sequence[keras.callbacks.Callback],
    states: Sequence[dict[str, Any]],
    path: pathlib.Path,
) -> None:
    """Gives callbacks the states that `save` wrote; one of another kind is left alone."""
    with np.load(path, allow_pickle=False) as arrays:
        for callback, stored in zip(callbacks, states, strict=False):
            if stored["kind"] != type(callback).__name__:
                continue
            state = {name: _from_plain(value, arrays) for name, value in stored["state"].items()}
            if hasattr(callback, "load_state"):
                callback.load_state(state.get(_WHOLE))
                continue
            if hasattr(callback, "set_state"):
                callback.set_state(state)
                continue
            if state.get("best") is not None and getattr(callback, "monitor_op", 0) is None:
                # Callbacks that watch a metric forget the best value when they find out, at the
                # end of their first epoch, in which direction it gets better.
                callback._set_monitor_op()
            vars(callback).update(state)


def _to_plain(value: Any, arrays: dict[str, np.ndarray]) -> tuple[bool, Any]:
    """Returns whether a value can be kept, and its plain form."""
    if value is None or isinstance(value, str | bool | int | float):
        return True, value
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind not in "biufS":
            return False, None
        name = f"a{len(arrays)}"
        arrays[name] = np.asarray(value)
        return True, {_ARRAY: name}
    if isinstance(value, list | tuple):
        parts = [_to_plain(part, arrays) for part in value]
        return all(kept for kept, _ in parts), [plain for _, plain in parts]
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        pairs = {name: _to_plain(part, arrays) for name, part in value.items()}
        kept = all(kept for kept, _ in pairs.values())
        return kept, {name: plain for name, (_, plain) in pairs.items()}
    return False, None


def _from_plain(value: Any, arrays: Any) -> Any:
    if isinstance(value, dict):
        if _ARRAY in value:
            return arrays[value[_ARRAY]]
        return {name: _from_plain(part, arrays) for name, part in value.items()}
    if isinstance(value, list):
        return [_from_plain(part, arrays) for part in value]
    return value
