"""Conditions between the fields of a config, such as `train.steps >= warmup.steps`."""

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn

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
_QUOTED: Final = r"'(?:[^']|'')*'|\"(?:[^\"\\]|\\.)*\""
_SIGN: Final = "|".join(_OPERATORS)
# A sign is one of the operators, the longest first, and nothing longer that begins like one.
_RESTRICTION: Final = re.compile(
    rf"\s*(?P<left>{_QUOTED}|[^\s'\"=!<>]+)\s*(?P<sign>{_SIGN})\s*"
    rf"(?P<right>{_QUOTED}|[^\s'\"=!<>]+)\s*"
)
# An `or` between a quote or any other character and the start of the next condition.
_OR: Final = re.compile(rf"({_QUOTED}|\s+or\s+)")
_PATH: Final = re.compile(r"[A-Za-z_]\w*(\.\w+)*")
_WORDS: Final = {"None": None, "True": True, "False": False}


def find_violations(restrictions: Sequence[str], values: Mapping[str, Any]) -> list[str]:
    """Returns one message for every restriction that does not hold.

    A side of a restriction is a dotted path, a number, `None`, `True`, `False` or a quoted string.
    Where one side is None, or the two are of different kinds, `<` and its like do not hold.
    Of several conditions with `or` between them one has to hold.

    Args:
        restrictions: Conditions such as `a.b != None`, `a.x < b.y` or `a.kind == 'fast'`.
        values: The config as plain data.

    Raises:
        ConfigError: If a restriction is malformed.
        UnknownKeyError: If it names a field that there is not.

    Example:
        >>> find_violations(["a.low < a.high", "a.low != None"], {"a": {"low": 3, "high": 2}})
        ['a.low < a.high: does not hold, got 3 and 2.']
        >>> find_violations(["a.low < a.high or a.high == 2"], {"a": {"low": 3, "high": 2}})
        []
    """
    violations = []
    for text in restrictions:
        problems = [_check(part, text, values) for part in _split_alternatives(text)]
        if None not in problems:
            violations.append(f"{text}: does not hold, {', '.join(map(str, problems))}.")
    return violations


class _AbsentError(Exception):
    """A restriction is about a part of something that is None."""


def _split_alternatives(text: str) -> list[str]:
    """Returns the conditions between the words `or` that are not in quotes."""
    parts = [""]
    for piece in _OR.split(text):
        if piece.strip() == "or" and piece != "or":
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def _check(condition: str, restriction: str, values: Mapping[str, Any]) -> str | None:
    """Returns why a condition does not hold; None if it holds."""
    match = _RESTRICTION.fullmatch(condition)
    if match is None:
        raise errors.ConfigError(
            f"restriction {errors.show(restriction)}: expected two sides and one of "
            f"{', '.join(_OPERATORS)} between them, such as 'a.low < a.high'."
        )
    try:
        left = _evaluate(match["left"], restriction, values)
        right = _evaluate(match["right"], restriction, values)
    except _AbsentError:
        return None  # A part that is None, such as data in whose place a dataset is given.
    reason = _find_reason(match["sign"], left, right)
    return None if reason is None else f"got {errors.show(left)} and {errors.show(right)}{reason}"


def _find_reason(sign: str, left: Any, right: Any) -> str | None:
    """Returns what to add to the message that a restriction does not hold; None if it holds."""
    try:
        return None if _OPERATORS[sign](left, right) else ""
    except TypeError:
        if left is None or right is None:
            return f"; `{sign}` needs a value on both sides, set the one that is None"
        kinds = f"{type(left).__name__} and {type(right).__name__}"
        return f"; `{sign}` can't compare {kinds}"


def _evaluate(side: str, restriction: str, values: Mapping[str, Any]) -> Any:
    if side in _WORDS:
        return _WORDS[side]
    if side[0] in "'\"" or yaml_io.NUMBER.fullmatch(side):
        return yaml_io.load_scalar(side)
    if not _PATH.fullmatch(side):
        raise errors.ConfigError(
            f"restriction {errors.show(restriction)}: {errors.show(side)} is no number, None, "
            "True, False, text in quotes or path such as 'a.low'."
        )
    value: Any = values
    for part in side.split("."):
        if value is None:
            raise _AbsentError
        if not isinstance(value, Mapping) or part not in value:
            _fail_unknown(side, restriction, values)
        value = value[part]
    return value


def _fail_unknown(side: str, restriction: str, values: Mapping[str, Any]) -> NoReturn:
    known = list(_list_paths(values, ""))
    hint = errors.suggest(side, known)
    if not hint:
        hint = f" Known at the top: {', '.join(str(name) for name in values) or 'nothing'}."
    raise errors.UnknownKeyError(
        f"restriction {errors.show(restriction)}: there is no field {errors.show(side)}.{hint}"
    )


def _list_paths(values: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Yields the dotted path of every value, those in the middle too."""
    for name, value in values.items():
        yield f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from _list_paths(value, f"{prefix}{name}.")
