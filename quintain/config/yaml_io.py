"""YAML with the scalars of YAML 1.2: `1e-3` is a number, `no` is a string, a date is a string.

PyYAML reads YAML 1.1; loader and dumper here are classes of their own, so that nothing changes for
other users of PyYAML in the same process.
"""

import math
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import yaml

from quintain import errors

_BaseLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BaseDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

_RESOLVERS: Final = (
    ("tag:yaml.org,2002:null", r"~|null|Null|NULL|", ("~", "n", "N", "")),
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", tuple("tTfF")),
    ("tag:yaml.org,2002:int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", tuple("-+0123456789")),
    (
        "tag:yaml.org,2002:float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        tuple("-+0123456789."),
    ),
)


class _Loader(_BaseLoader):
    """A safe loader with the scalars of YAML 1.2."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}


class _Dumper(_BaseDumper):
    """A safe dumper that quotes what YAML 1.1 or 1.2 would read as something else."""

    def ignore_aliases(self, data: Any) -> bool:
        """Writes every value out, wherever it stands."""
        del data
        return True


for _tag, _pattern, _first in _RESOLVERS:
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), list(_first))
    # The dumper keeps the resolvers of YAML 1.1 and quotes by both.
    _Dumper.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), list(_first))


def _construct_int(loader: Any, node: Any) -> int:
    text = loader.construct_scalar(node)
    return int(text, 0) if text[:2] in ("0x", "0o") else int(text)


_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)


def _represent_float(dumper: Any, value: float) -> Any:
    if not math.isfinite(value):
        text = ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    else:
        text = repr(value)
        mantissa, exponent, power = text.partition("e")
        if exponent and "." not in mantissa:
            text = f"{mantissa}.0e{power}"
    return dumper.represent_scalar("tag:yaml.org,2002:float", text)


def _represent_sequence(dumper: Any, value: Any) -> Any:
    is_flat = all(not isinstance(part, dict | list | tuple) for part in value)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=is_flat)


_Dumper.add_representer(float, _represent_float)
_Dumper.add_representer(list, _represent_sequence)
_Dumper.add_representer(tuple, _represent_sequence)


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
    node = _compose(text, path)
    if node is None:
        raise errors.ConfigError(f"{path}: the file is empty; expected names with values.")
    if not isinstance(node, yaml.MappingNode):
        raise errors.ConfigError(
            f"{path}:{node.start_mark.line + 1}: expected names with values (`name: value`), but "
            "the top level is something else."
        )
    lines: dict[str, int] = {}
    _note_lines(node, "", lines, path)
    return load_text(text, path), lines


def find_line(lines: Mapping[str, int], path: str) -> int:
    """Returns the line of a dotted path, or of the nearest one above it that has a line."""
    while path and path not in lines:
        path = path.rpartition(".")[0] if "." in path else ""
    return lines.get(path, 1)


def find_lines(text: str) -> dict[str, int]:
    """Returns the line of each key of YAML text by its dotted path, counted from 1."""
    lines: dict[str, int] = {}
    _note_lines(_compose(text, "<string>"), "", lines, "<string>")
    return lines


def load_text(text: str, source: str = "<string>") -> Any:
    """Reads YAML from a string; `source` names it in errors.

    Raises:
        ConfigError: If it is not YAML, or a mapping has a key twice.
    """
    node = _compose(text, source)
    if node is None:
        return None
    _note_lines(node, "", {}, source)
    loader = _Loader("")
    try:
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        raise _syntax_error(error, text, source) from error
    finally:
        loader.dispose()


def load_scalar(text: str) -> Any:
    """Reads one value, such as `1e-3`, `[1, 2]` or `'no'`."""
    return load_text(text)


def dump(mapping: Mapping[str, Any]) -> str:
    """Writes a mapping as YAML that reads back equal, by this module and by readers of YAML 1.1."""
    return yaml.dump(
        dict(mapping),
        Dumper=_Dumper,
        default_flow_style=False,
        sort_keys=False,
        allow_unicode=True,
        width=100,
    )


def _read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise errors.ConfigError(
            f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8."
        ) from error
    except OSError as error:
        raise errors.ConfigError(f"{path}: can't be read: {error.strerror}.") from error


def _compose(text: str, source: str) -> Any:
    try:
        return yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise _syntax_error(error, text, source) from error


def _syntax_error(error: Exception, text: str, source: str) -> errors.ConfigError:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    if mark is None:
        return errors.ConfigError(f"{source}: not YAML: {problem}.")
    lines = text.splitlines()
    shown = lines[mark.line].rstrip() if mark.line < len(lines) else ""
    return errors.ConfigError(
        f"{source}:{mark.line + 1}:{mark.column + 1}: not YAML: {problem}.\n  {shown}"
    )


def _note_lines(node: Any, path: str, lines: dict[str, int], source: str) -> None:
    if isinstance(node, yaml.SequenceNode):
        for index, part in enumerate(node.value):
            _note_lines(part, f"{path}[{index}]", lines, source)
    if not isinstance(node, yaml.MappingNode):
        return
    seen: dict[str, int] = {}
    for key, value in node.value:
        name, line = str(key.value), key.start_mark.line + 1
        if name in seen:
            raise errors.ConfigError(
                f"{source}:{line}: {name!r} is given twice, first in line {seen[name]}."
            )
        seen[name] = line
        here = f"{path}.{name}" if path else name
        lines[here] = line
        _note_lines(value, here, lines, source)
