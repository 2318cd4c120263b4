"""Overrides on a command line: `a.b=1,c=[1, 2],d='x, y'` as nested plain data."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from quintain import errors
from quintain.config import yaml_io, yaml_limits, yaml_nodes
from quintain.files import file_io

_NAME: Final = re.compile(r"[A-Za-z_]\w*(?:\[\d{1,9}\])*(?:\.[A-Za-z_]\w*(?:\[\d{1,9}\])*)*")
_PART: Final = re.compile(r"[A-Za-z_]\w*|\[\d+\]")
_QUOTED: Final = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_WORDS: Final = ("true", "True", "TRUE", "false", "False", "FALSE", "~", "null", "Null", "NULL")
_CLOSING: Final = {"[": "]", "{": "}", "(": ")"}
_MAX_SHOWN: Final = 200
_FILE_ENDINGS: Final = (".yaml", ".yml", ".json")


class _Elements(dict[int, Any]):
    """Elements of a list that were set one by one."""


def parse_overrides(text: str) -> dict[str, Any]:
    """Reads the value of a `--params-override` flag.

    It is a list of `path=value`, separated by commas; or YAML or JSON in braces; or the name of a
    YAML or JSON file. Values are YAML 1.2 scalars, lists in brackets, mappings in braces, or
    strings in quotes; `None`, `null`, `~` and nothing at all mean None; everything else is a
    string, such as `off`, a date, a path or an address. A path may set elements of a list one by
    one: `e[0]=1,e[1]=2`. If a path is given twice, the last one wins; mappings are merged.

    Raises:
        ConfigError: Pointing at the place that is wrong; or as `yaml_io.load_file`.

    Example:
        >>> parse_overrides("trainer.train_steps=10, task.name='a, b', runtime.tpu=gs://x/y")
        {'trainer': {'train_steps': 10}, 'task': {'name': 'a, b'}, 'runtime': {'tpu': 'gs://x/y'}}
    """
    stripped = text.strip()
    if stripped.startswith("{"):
        return dict(_load(text, 0, text))
    if stripped.endswith(_FILE_ENDINGS) and ("=" not in stripped or file_io.isfile(stripped)):
        return yaml_io.load_file(stripped)
    return parse_pairs(text)


def parse_pairs(text: str) -> dict[str, Any]:
    """Reads `path=value` pairs, separated by commas; `parse_overrides` reads other forms, too.

    Raises:
        ConfigError: Pointing at the place that is wrong.

    Example:
        >>> parse_pairs("a.b=1,c=x")
        {'a': {'b': 1}, 'c': 'x'}
    """
    return _read_pairs(text, _split(text))


def parse_assignment(text: str) -> dict[str, Any]:
    """Reads one `path=value`, whose value is all that follows the first `=`.

    Raises:
        ConfigError: If there is no `=` or nothing after it, or the path or the value is malformed.

    Example:
        >>> parse_assignment("a.b=x,y")
        {'a': {'b': 'x,y'}}
    """
    merged = _read_pairs(text, [(0, text)])
    path, _, value = text.partition("=")
    if not value.strip():
        raise _error(
            text,
            len(path) + 1,
            f"a value is missing; \"{path.strip()}=''\" is an empty text, {path.strip()}=null none",
        )
    return merged


def merge(base: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `base` with the values of `other`; mappings in both are merged, all else replaced.

    Example:
        >>> merge({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}, "d": [4]})
        {'a': {'b': 1, 'c': 3}, 'd': [4]}
    """
    return dict(_merge_values(base, other))


def _merge_values(base: Any, other: Any) -> Any:
    if isinstance(base, list) and isinstance(other, _Elements):
        base = _Elements(enumerate(base))
    is_same_kind = isinstance(base, _Elements) == isinstance(other, _Elements)
    if not (isinstance(base, Mapping) and isinstance(other, Mapping) and is_same_kind):
        return other
    merged = _Elements(base) if isinstance(base, _Elements) else dict(base)
    for name, value in other.items():
        merged[name] = _merge_values(merged[name], value) if name in merged else value
    return merged


def _read_pairs(text: str, pairs: Iterable[tuple[int, str]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    positions: dict[str, int] = {}
    for start, pair in pairs:
        position, name, value = _parse_pair(text, start, pair)
        positions.setdefault(name, position)
        for part in reversed(_PART.findall(name)):
            is_index = part.startswith("[")
            value = _Elements({int(part[1:-1]): value}) if is_index else {part: value}
        merged = merge(merged, value)
    return {name: _to_lists(value, name, text, positions) for name, value in merged.items()}


def _split(text: str) -> Iterator[tuple[int, str]]:
    """Yields the pairs between top-level commas, each with its position."""
    start, position, is_value, can_quote = 0, 0, False, False
    opened: list[int] = []
    while position < len(text):
        character = text[position]
        if can_quote and character in "'\"":
            quoted = _QUOTED.match(text, position)
            if quoted is None:
                raise _error(text, position, f"the quote {character} is not closed")
            position, can_quote = quoted.end(), False
            continue
        if character in _CLOSING:
            opened.append(position)
        elif opened and character == _CLOSING[text[opened[-1]]]:
            opened.pop()
        elif character == "," and not opened:
            yield start, text[start:position]
            start, is_value = position + 1, False
        if not character.isspace():
            # A quote in the middle of a word, such as in `don't`, is only a character.
            can_quote = character in "[{(,:" if opened else character == "=" and not is_value
        is_value = is_value or character == "="
        position += 1
    if opened:
        missing = _CLOSING[text[opened[-1]]]
        raise _error(text, opened[-1], f"{missing!r} is missing; put text with brackets in quotes")
    if text[start:].strip() or start == 0:
        yield start, text[start:]


def _parse_pair(text: str, start: int, pair: str) -> tuple[int, str, Any]:
    name, sign, value = pair.partition("=")
    position = start + len(name) - len(name.lstrip())
    if not sign:
        raise _error(text, position, f"expected `path=value`, got {errors.show(pair.strip())}")
    path = name.strip()
    if not _NAME.fullmatch(path):
        problem = f"{errors.show(path)} is no path such as `trainer.train_steps`"
        raise _error(text, position, problem)
    parts = _PART.findall(path)
    if len(parts) > yaml_limits.MAX_DEPTH:
        problem = f"the path has {len(parts)} parts, expected at most {yaml_limits.MAX_DEPTH}"
        raise _error(text, position, problem)
    if max(map(len, parts)) > yaml_limits.MAX_NAME_LENGTH:
        problem = f"a name has more than {yaml_limits.MAX_NAME_LENGTH} characters"
        raise _error(text, position, problem)
    return position, name.strip(), _parse_value(text, start + len(name) + 1, value)


def _parse_value(text: str, start: int, value: str) -> Any:
    stripped = value.strip()
    if stripped in ("", "None"):
        return None
    if stripped[0] in "[{'\"" or stripped in _WORDS or yaml_io.NUMBER.fullmatch(stripped):
        return _load(text, start + value.index(stripped), stripped)
    return stripped


def _load(text: str, start: int, value: str) -> Any:
    """Reads the YAML that begins at `start`; errors point at their place in the whole text."""
    try:
        return yaml_io.load_text(value, "override", is_none_null=True)
    except yaml_nodes.YamlError as error:
        raise _error(text, start + error.offset, error.problem) from error


def _to_lists(value: Any, path: str, text: str, positions: Mapping[str, int]) -> Any:
    """Returns `value` with elements set one by one as lists."""
    if isinstance(value, _Elements):
        missing = next((index for index in range(len(value)) if index not in value), None)
        if missing is not None:
            beyond = f"{path}[{min(index for index in value if index > missing)}]"
            position = next(at for name, at in positions.items() if name.startswith(beyond))
            raise _error(text, position, f"the indices leave a gap, {path}[{missing}] is not given")
        return [
            _to_lists(value[index], f"{path}[{index}]", text, positions)
            for index in range(len(value))
        ]
    if isinstance(value, dict):
        return {
            name: _to_lists(part, f"{path}.{name}", text, positions) for name, part in value.items()
        }
    return value


def _error(text: str, position: int, message: str) -> errors.ConfigError:
    """Returns an error that shows the line of the position with a caret under it."""
    begin = text.rfind("\n", 0, position) + 1
    line = text[begin:].partition("\n")[0].replace("\t", " ")
    left_out = max(position - begin - _MAX_SHOWN // 2, 0)
    shown = line[left_out : left_out + _MAX_SHOWN]
    caret = " " * (position - begin - left_out)
    return errors.ConfigError(f"override: {message}.\n  {shown}\n  {caret}^")
