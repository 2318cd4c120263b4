"""Overrides on a command line: `a.b=1,c=[1, 2],d='x, y'` as nested plain data."""

import os
import re
from collections.abc import Iterator
from typing import Any, Final

from quintain import errors
from quintain.config import yaml_io

_NAME: Final = re.compile(r"[A-Za-z_]\w*(?:\[\d+\])*(?:\.[A-Za-z_]\w*(?:\[\d+\])*)*")
_PART: Final = re.compile(r"[A-Za-z_]\w*|\[\d+\]")
_SCALAR: Final = re.compile(
    r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|0o[0-7]+|0x[0-9a-fA-F]+"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
    r"|true|True|TRUE|false|False|FALSE|~|null|Null|NULL"
)
_CLOSING: Final = {"[": "]", "{": "}", "(": ")"}
_FILE_ENDINGS: Final = (".yaml", ".yml", ".json")


def parse_overrides(text: str) -> dict[str, Any]:
    """Reads the value of a `--params_override` flag.

    It is a list of `path=value`, separated by commas; or YAML or JSON in braces; or the name of a
    YAML or JSON file. Values are YAML 1.2 scalars, lists in brackets, mappings in braces, or
    strings in quotes; `None`, `null`, `~` and nothing at all mean None; everything else is a
    string, such as `off`, a date, a path or an address. A path may set elements of a list one by
    one: `e[0]=1,e[1]=2`. If a path is given twice, the last one wins.

    Raises:
        ConfigError: Pointing at the place that is wrong.

    Example:
        >>> parse_overrides("trainer.train_steps=10, task.name='a, b', runtime.tpu=gs://x/y")
        {'trainer': {'train_steps': 10}, 'task': {'name': 'a, b'}, 'runtime': {'tpu': 'gs://x/y'}}
    """
    stripped = text.strip()
    if stripped.startswith("{"):
        return dict(yaml_io.load_text(stripped, "--params_override") or {})
    if "=" not in stripped and (stripped.endswith(_FILE_ENDINGS) or os.path.exists(stripped)):
        return yaml_io.load_file(stripped)
    merged: dict[str, Any] = {}
    for start, pair in _split(text):
        _store(merged, *_parse_pair(text, start, pair))
    return _lists_from_indices(merged, text)


def parse_assignment(text: str) -> dict[str, Any]:
    """Reads one `path=value`, whose value is all that follows the first `=`.

    Raises:
        ConfigError: If there is no `=`, or the path or the value is malformed.

    Example:
        >>> parse_assignment("a.b=x,y")
        {'a': {'b': 'x,y'}}
    """
    merged: dict[str, Any] = {}
    _store(merged, *_parse_pair(text, 0, text))
    return _lists_from_indices(merged, text)


def _split(text: str) -> Iterator[tuple[int, str]]:
    """Yields the pairs between top-level commas, each with its position."""
    start, quote, opened = 0, "", []
    for position, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"" and text[start:position].rstrip().endswith(
            ("=", "[", "{", ",", ":")
        ):
            quote = character
        elif character in _CLOSING:
            opened.append((position, _CLOSING[character]))
        elif opened and character == opened[-1][1]:
            opened.pop()
        elif character == "," and not opened:
            yield start, text[start:position]
            start = position + 1
    if quote:
        raise _error(text, start, f"a quote {quote} is not closed")
    if opened:
        raise _error(text, opened[-1][0], f"{opened[-1][1]!r} is missing")
    if text[start:].strip() or start == 0:
        yield start, text[start:]


def _parse_pair(text: str, start: int, pair: str) -> tuple[list[str], Any]:
    name, sign, value = pair.partition("=")
    position = start + len(name) - len(name.lstrip())
    if not sign:
        raise _error(text, position, f"expected `path=value`, got {pair.strip()!r}")
    if not _NAME.fullmatch(name.strip()):
        raise _error(text, position, f"{name.strip()!r} is no path such as `trainer.train_steps`")
    try:
        return _PART.findall(name), _parse_value(value.strip())
    except errors.ConfigError as error:
        raise _error(text, start + len(name) + 1, str(error).partition("\n")[0]) from error


def _parse_value(text: str) -> Any:
    if text in ("", "None"):
        return None
    if text[0] in "[{'\"" or _SCALAR.fullmatch(text):
        value = yaml_io.load_text(text, "value")
        return _read_none(value) if text[0] in "[{" else value
    return text


def _read_none(value: Any) -> Any:
    """Replaces the word None inside of lists and mappings, as at the top level."""
    if isinstance(value, list):
        return [_read_none(part) for part in value]
    if isinstance(value, dict):
        return {name: _read_none(part) for name, part in value.items()}
    return None if value == "None" else value


def _store(merged: dict[str, Any], parts: list[str], value: Any) -> None:
    target = merged
    for part in parts[:-1]:
        if not isinstance(target.get(part), dict):
            target[part] = {}
        target = target[part]
    target[parts[-1]] = value


def _lists_from_indices(value: Any, text: str) -> Any:
    """Turns mappings whose keys are `[0]`, `[1]`, ... into lists."""
    if not isinstance(value, dict):
        return value
    converted = {name: _lists_from_indices(part, text) for name, part in value.items()}
    if not any(name.startswith("[") for name in converted):
        return converted
    wanted = [f"[{index}]" for index in range(len(converted))]
    if sorted(converted) != sorted(wanted):
        raise _error(
            text, 0, f"the indices {', '.join(converted)} leave a gap; expected {', '.join(wanted)}"
        )
    return [converted[name] for name in wanted]


def _error(text: str, position: int, message: str) -> errors.ConfigError:
    return errors.ConfigError(f"override: {message}.\n  {text}\n  {' ' * position}^")
