"""YAML with the scalars of YAML 1.2: `1e-3` is a number, `no` is a string, a date is a string.

Merge keys are those of YAML 1.1: `{<<: *name, key: value}` takes over the keys of `*name`.

PyYAML reads YAML 1.1; loader and dumper here are classes of their own, so that nothing changes for
other users of PyYAML in the same process. Only plain data is read and written: no dates, no sets,
no bytes, no objects.
"""

import math
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final, NoReturn

import yaml

from quintain import errors
from quintain.config import yaml_limits, yaml_nodes
from quintain.files import file_io

_BaseLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BaseDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

NUMBER: Final = re.compile("|".join(pattern for _, pattern, _ in yaml_nodes.RESOLVERS[2:]))
"""Matches what YAML 1.2 reads as a number."""

_MAX_WIDTH: Final = 2**31 - 1
_UNPRINTABLE: Final = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ufeff\ue000-\ufffd\U00010000-\U0010ffff]"
)
_ADVICE: Final = (
    (r"found character .*cannot start any token|found a tab", "indent with spaces, and put text"
     " that begins with a special character in quotes"),
    (r"mapping values are not allowed", "put text that contains `: ` in quotes"),
    (r"another document", "expected one document, without `---` between two"),
    (r"expected ',' or '[\]}]'", "close the bracket, and put text with brackets in quotes"),
    (r"expected <document start>", "nothing may follow a closed quote or bracket"),
    (r"unexpected end of stream", "close the quote"),
    (r"block (end|mapping)|expected key|expected '-'", "check the indentation"),
    (r"undefined alias", "put text that begins with `*` in quotes"),
    (r"simple key|could not find expected ':'", "write `name: value`"),
)  # fmt: skip


class _Loader(_BaseLoader):
    """A safe loader with the scalars of YAML 1.2."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}


class _PythonLoader(_Loader):
    """Reads the word None as null, too."""


class _Dumper(_BaseDumper):
    """A safe dumper of plain data that quotes what YAML 1.1 or 1.2 would read as something else."""

    def ignore_aliases(self, data: Any) -> bool:
        """Writes every value out, wherever it stands."""
        del data
        return True


for _tag, _pattern, _first in yaml_nodes.RESOLVERS:
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), list(_first))
    # The dumper keeps the resolvers of YAML 1.1 and quotes by both.
    _Dumper.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), list(_first))
_Loader.add_implicit_resolver(yaml_nodes.MERGE, re.compile("^<<$"), ["<"])
_PythonLoader.add_implicit_resolver(f"{yaml_nodes.CORE}null", re.compile("^None$"), ["N"])
# Booleans of YAML 1.1 that PyYAML itself does not know.
_Dumper.add_implicit_resolver(f"{yaml_nodes.CORE}bool", re.compile("^[yYnN]$"), list("yYnN"))


def _construct_int(loader: Any, node: Any) -> int:
    return yaml_nodes.read_int(loader.construct_scalar(node))


_Loader.add_constructor(f"{yaml_nodes.CORE}int", _construct_int)


def _represent_float(dumper: Any, value: float) -> Any:
    if not math.isfinite(value):
        text = ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    else:
        text = float.__repr__(value)
        mantissa, exponent, power = text.partition("e")
        if exponent and "." not in mantissa:
            text = f"{mantissa}.0e{power}"
    return dumper.represent_scalar(f"{yaml_nodes.CORE}float", text)


def _represent_str(dumper: Any, value: str) -> Any:
    style = '"' if yaml_nodes.LINE_BREAK.search(value) else None
    return dumper.represent_scalar(f"{yaml_nodes.CORE}str", value, style=style)


def _represent_sequence(dumper: Any, value: Any) -> Any:
    is_flat = all(not isinstance(part, dict | list | tuple) for part in value)
    return dumper.represent_sequence(f"{yaml_nodes.CORE}seq", value, flow_style=is_flat)


def _refuse(dumper: Any, value: Any) -> NoReturn:
    del dumper
    raise errors.ConfigError(
        f"got {errors.show(value)} of type {type(value).__name__}, expected plain data to write "
        "as YAML: a string, number, boolean, None, list or mapping."
    )


_PLAIN_TYPES: Final = (bool, int, dict, type(None))
_Dumper.yaml_representers = {
    **{kind: _BaseDumper.yaml_representers[kind] for kind in _PLAIN_TYPES},
    str: _represent_str,
    float: _represent_float,
    list: _represent_sequence,
    tuple: _represent_sequence,
}
_Dumper.yaml_multi_representers = {float: _represent_float, object: _refuse}


def load_file(path: str) -> dict[str, Any]:
    """Reads a YAML file whose top level is a mapping.

    Raises:
        ConfigError: If the file is missing, empty, not UTF-8, not YAML, or no mapping.
    """
    return load_file_with_lines(path)[0]


def load_file_with_lines(path: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Reads a YAML file and where each of its keys stands.

    Returns:
        The mapping, and the line of each key by its dotted path (`a.b[0].c`), counted from 1.

    Raises:
        ConfigError: As `load_file`.
    """
    text = _read_text(path)
    node = _compose(text, path, _Loader)
    if node is None:
        raise errors.ConfigError(
            f"{path}: the file is empty; expected names with values, such as `name: value`."
        )
    if not isinstance(node, yaml.MappingNode):
        raise errors.ConfigError(
            f"{path}:{node.start_mark.line + 1}: expected names with values (`name: value`), but "
            f"the top level is a {'list' if isinstance(node, yaml.SequenceNode) else 'value'}."
        )
    lines = yaml_nodes.Checker(text, path).find_lines(node)
    return _construct(node, _Loader), lines


def find_line(lines: Mapping[str, int], path: str) -> int:
    """Returns the line of a dotted path, or of the nearest one above it that has a line."""
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return lines.get(path, 1)


def find_lines(text: str) -> dict[str, int]:
    """Returns the line of each key of YAML text by its dotted path, counted from 1."""
    return yaml_nodes.Checker(text, "<string>").find_lines(_compose(text, "<string>", _Loader))


def load_text(text: str, source: str = "<string>", *, is_none_null: bool = False) -> Any:
    """Reads YAML from a string.

    Args:
        text: One YAML document; None is returned for an empty one.
        source: Names the text in errors.
        is_none_null: Whether the word `None`, without quotes, means None as `null` does.

    Raises:
        ConfigError: If it is not YAML, has anything but plain data, or a mapping has a key twice.
    """
    loader_cls = _PythonLoader if is_none_null else _Loader
    node = _compose(text, source, loader_cls)
    if node is None:
        return None
    yaml_nodes.Checker(text, source).find_lines(node)
    return _construct(node, loader_cls)


def load_scalar(text: str) -> Any:
    """Reads one value, such as `1e-3`, `[1, 2]` or `'no'`.

    Raises:
        ConfigError: As `load_text`.
    """
    return load_text(text)


def dump(mapping: Mapping[str, Any]) -> str:
    """Writes a mapping as YAML that reads back equal, by this module and by readers of YAML 1.1.

    A scalar, and a list of scalars, stands on one line, so that a comment may follow it.

    Raises:
        ConfigError: If there is anything but plain data in it.
    """
    return yaml.dump(
        dict(mapping),
        Dumper=_Dumper,
        default_flow_style=False,
        sort_keys=False,
        allow_unicode=True,
        width=_MAX_WIDTH,
    )


def dump_scalar(value: str | float | None) -> str:
    """Writes one value on one line, with quotes where it would read back as something else.

    Example:
        >>> dump_scalar(1e-5)
        '1.0e-05'
    """
    return str(yaml.dump(value, Dumper=_Dumper, width=_MAX_WIDTH)).partition("\n")[0]


def _read_text(path: str) -> str:
    try:
        return file_io.read_bytes(path).decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise errors.ConfigError(
            f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8."
        ) from error
    except OSError as error:
        raise errors.ConfigError(
            f"{path}: can't be read: {error.strerror or error}; expected the name of a YAML file."
        ) from error


def _compose(text: str, source: str, loader_cls: Any) -> Any:
    """Returns the node graph of one document, or None if there is none."""
    if found := _UNPRINTABLE.search(text):
        before = yaml_nodes.LINE_BREAK.split(text[: found.start()])
        raise yaml_nodes.YamlError(
            f"not YAML: the control character {found[0]!r}; remove it, or write it in double "
            "quotes with a backslash",
            source=source,
            text=text,
            line=len(before) - 1,
            column=len(before[-1]),
        )
    if len(text) > yaml_limits.MAX_CHARACTERS:
        raise errors.ConfigError(
            f"{source}: got {len(text):,} characters, expected at most "
            f"{yaml_limits.MAX_CHARACTERS:,}; put long lists and texts into files of their own."
        )
    try:
        excess = yaml_limits.find_excess(text, loader_cls)
        if excess is None:
            return yaml.compose(text, Loader=loader_cls)
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        problem = str(getattr(error, "problem", None) or error)
        advice = next((advice for sign, advice in _ADVICE if re.search(sign, problem)), "")
        raise yaml_nodes.YamlError(
            f"not YAML: {problem}{'; ' if advice else ''}{advice}",
            source=source,
            text=text,
            line=mark.line if mark else 0,
            column=mark.column if mark else 0,
        ) from error
    mark, problem = excess
    raise yaml_nodes.YamlError(
        problem, source=source, text=text, line=mark.line, column=mark.column
    )


def _construct(node: Any, loader_cls: Any) -> Any:
    loader = loader_cls("")
    try:
        return loader.construct_document(node)
    finally:
        loader.dispose()
