"""Node graph of YAML: lines of keys, merge keys, and the check for plain data.

A mistake is shown with its line and a caret below it.
"""

import math
import re
from typing import Any, Final, NoReturn

import yaml

from quintain import errors
from quintain.config import yaml_limits

CORE: Final = "tag:yaml.org,2002:"
TUPLE: Final = f"{CORE}python/tuple"
"""Tag that the reference writes before a list that was a tuple."""

MERGE: Final = f"{CORE}merge"
"""Tag of the key `<<` of YAML 1.1, which takes over the keys of other mappings."""

_COLLECTION_TAGS: Final = (f"{CORE}map", f"{CORE}seq", f"{CORE}str")
RESOLVERS: Final = (
    (f"{CORE}null", r"~|null|Null|NULL|", ("~", "n", "N", "")),
    (f"{CORE}bool", r"true|True|TRUE|false|False|FALSE", tuple("tTfF")),
    (f"{CORE}int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", tuple("-+0123456789")),
    (
        f"{CORE}float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        tuple("-+0123456789."),
    ),
)
"""Tag, pattern and first characters of the scalars that are no text, as YAML 1.2 has them."""

LINE_BREAK: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")

_INT64: Final = range(-(2**63), 2**63)
_MAX_SHOWN: Final = 200


class YamlError(errors.ConfigError):
    """Text is not YAML, or not YAML of plain data.

    Attributes:
        problem: What is wrong, without the place.
        offset: Where it is wrong, in characters from the beginning of the text.
    """

    def __init__(self, problem: str, *, source: str, text: str, line: int, column: int) -> None:
        """Builds the message; `line` and `column` count from 0, and may lie behind the text."""
        starts = [0, *(found.end() for found in LINE_BREAK.finditer(text))]
        lines = LINE_BREAK.split(text)
        if line >= len(lines) or (not lines[line].strip() and not text[starts[line] :].strip()):
            line = next((n for n in reversed(range(len(lines))) if lines[n].strip()), 0)
            column = len(lines[line].rstrip())
        begin = max(column - _MAX_SHOWN // 2, 0)
        shown = lines[line][begin : begin + _MAX_SHOWN]
        super().__init__(
            f"{source}:{line + 1}:{column + 1}: {problem}.\n"
            f"  {shown}\n  {' ' * (column - begin)}^".replace("\t", " ")
        )
        self.problem = problem
        self.offset = starts[line] + column


class Checker:
    """Walks a node graph: notes the lines of keys, merges mappings, refuses all but plain data."""

    def __init__(self, text: str, source: str) -> None:
        self._text = text
        self._source = source
        self._lines: dict[str, int] = {}
        self._open: set[int] = set()
        self._num_characters = 0

    def find_lines(self, root: Any) -> dict[str, int]:
        """Returns the line of each key by its dotted path, counted from 1.

        Raises:
            ConfigError: If a key is given twice, a value contains itself, or is not plain data.
        """
        if root is not None:
            self._visit(root, "")
        return self._lines

    def _visit(self, node: Any, path: str) -> None:
        if id(node) in self._open:
            self._fail(node, "an alias refers to what contains it; write the value out")
        self._num_characters += len(path)
        if self._num_characters > yaml_limits.MAX_EXPANDED_CHARACTERS:
            self._fail(node, "the names and aliases above are too long and too many")
        self._check_tag(node)
        if isinstance(node, yaml.ScalarNode):
            return
        self._open.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            for index, part in enumerate(node.value):
                self._visit(part, f"{path}[{index}]")
        else:
            self._visit_mapping(node, path)
        self._open.discard(id(node))

    def _visit_mapping(self, node: Any, path: str) -> None:
        self._merge(node)
        for key, value in node.value:
            here = f"{path}.{key.value}" if path else str(key.value)
            self._lines[here] = key.start_mark.line + 1
            self._visit(value, here)

    def _merge(self, node: Any) -> None:
        """Replaces the merge key of a mapping by the keys of the mappings that it names.

        As YAML 1.1 has it, the mapping's own keys win, and then those of mappings that are named
        earlier. Each key keeps its place in the text.
        """
        merged: list[Any] | None = None
        own: dict[tuple[str, str], Any] = {}
        for key, value in node.value:
            name = self._read_name(key)
            if name in own:
                line = own[name][0].start_mark.line + 1
                self._fail(
                    key,
                    f"{errors.show(key.value)} is given twice, first in line {line}; remove one",
                )
            own[name] = key, value
            if key.tag == MERGE:
                merged = value.value if isinstance(value, yaml.SequenceNode) else [value]
        if merged is None:
            return
        own = {name: pair for name, pair in own.items() if pair[0].tag != MERGE}
        taken: dict[tuple[str, str], Any] = {}
        for source in merged:
            if not isinstance(source, yaml.MappingNode):
                self._fail(source, "`<<` takes an alias of a mapping, `*name`, or a list of them")
            if id(source) in self._open:
                self._fail(source, "an alias refers to what contains it; write the value out")
            self._open.add(id(source))
            self._merge(source)
            self._open.discard(id(source))
            for key, value in source.value:
                taken.setdefault(self._read_name(key), (key, value))
        node.value = list({**taken, **own}.values())

    def _read_name(self, key: Any) -> tuple[str, str]:
        """Returns what tells a key from others: `null` and `Null` are one, `a` and `A` are two."""
        if not isinstance(key, yaml.ScalarNode):
            self._fail(key, "a name must be a word; put it in quotes if it contains brackets")
        if key.tag != MERGE:
            self._check_tag(key)
        if len(key.value) > yaml_limits.MAX_NAME_LENGTH:
            self._fail(
                key,
                f"a name has {len(key.value):,} characters, expected at most "
                f"{yaml_limits.MAX_NAME_LENGTH}",
            )
        return key.tag, key.value if key.tag == f"{CORE}str" else key.value.lower()

    def _check_tag(self, node: Any) -> None:
        """Refuses tags such as `!!set`, and `!!int` before what is no integer."""
        if node.tag == TUPLE and isinstance(node, yaml.SequenceNode):
            node.tag = f"{CORE}seq"
        if node.tag == MERGE and isinstance(node, yaml.ScalarNode):
            node.tag = f"{CORE}str"  # It merges as a key only.
        pattern = next((pattern for tag, pattern, _ in RESOLVERS if tag == node.tag), None)
        if pattern is None and node.tag not in _COLLECTION_TAGS:
            shown = node.tag.replace(CORE, "!!")
            self._fail(node, f"the tag {shown} is not supported; expected plain data without tags")
        is_none = node.tag == f"{CORE}null" and node.value == "None"
        if pattern is not None and not is_none and not _is_match(pattern, node):
            self._fail(node, f"{errors.show(node.value)} is no {node.tag.removeprefix(CORE)}")
        if node.tag == f"{CORE}int" and not _is_int64(node.value):
            self._fail(
                node, f"{errors.show(node.value)} is beyond the 64 bits of the largest integer"
            )
        if node.tag == f"{CORE}float" and _is_too_large(node.value):
            self._fail(
                node,
                f"{errors.show(node.value)} is beyond the largest number, 1.8e308; write .inf "
                "where infinity is meant",
            )

    def _fail(self, node: Any, problem: str) -> NoReturn:
        mark = node.start_mark
        raise YamlError(
            problem, source=self._source, text=self._text, line=mark.line, column=mark.column
        )


def read_int(text: str) -> int:
    """Returns the integer that a scalar of YAML 1.2 says."""
    return int(text, 0) if text[:2] in ("0x", "0o") else int(text)


def _is_int64(text: str) -> bool:
    """Returns True if an integer fits into 64 bits; Python refuses to read one of 4,300 digits."""
    return len(text.lstrip("+-0")) < _MAX_SHOWN and read_int(text) in _INT64


def _is_too_large(text: str) -> bool:
    return text[-1].isdecimal() and math.isinf(float(text))


def _is_match(pattern: str, node: Any) -> bool:
    return isinstance(node, yaml.ScalarNode) and bool(re.fullmatch(pattern, node.value))
