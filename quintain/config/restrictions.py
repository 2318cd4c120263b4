"""Conditions between the fields of a config, such as `train.steps >= warmup.steps`."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from quintain import errors
from quintain.config import yaml_io

_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_RESTRICTION: Final = re.compile(
    r"^\s*(?P<left>.+?)\s*(?P<sign>==|!=|<=|>=|<|>)\s*(?P<right>.+?)\s*$"
)
_PATH: Final = re.compile(r"[A-Za-z_]\w*(\.\w+)*")
_WORDS: Final = {"None": None, "True": True, "False": False}


def find_violations(restrictions: Sequence[str], values: Mapping[str, Any]) -> list[str]:
    """Returns one message for every restriction that does not hold.

    A side of a restriction is a dotted path, a number, `None`, `True`, `False` or a quoted string.

    Args:
        restrictions: Conditions such as `a.b != None`, `a.x < b.y` or `a.kind == 'fast'`.
        values: The config as plain data.

    Raises:
        ConfigError: If a restriction is malformed or names a field that there is not.
    """
    violations = []
    for text in restrictions:
        match = _RESTRICTION.match(text)
        if match is None:
            raise errors.ConfigError(
                f"restriction {text!r}: expected two sides and one of {', '.join(_OPERATORS)}."
            )
        left = _evaluate(match["left"], text, values)
        right = _evaluate(match["right"], text, values)
        if not _holds(match["sign"], left, right):
            violations.append(f"{text}: does not hold, got {left!r} and {right!r}.")
    return violations


def _holds(sign: str, left: Any, right: Any) -> bool:
    try:
        return bool(_OPERATORS[sign](left, right))
    except TypeError:
        return False


def _evaluate(side: str, restriction: str, values: Mapping[str, Any]) -> Any:
    if side in _WORDS:
        return _WORDS[side]
    if not _PATH.fullmatch(side):
        return yaml_io.load_scalar(side)
    value: Any = values
    for part in side.split("."):
        if not isinstance(value, Mapping) or part not in value:
            known = list(value) if isinstance(value, Mapping) else []
            raise errors.ConfigError(
                f"restriction {restriction!r}: there is no field {side!r}."
                f"{errors.suggest(part, known)}"
            )
        value = value[part]
    return value
