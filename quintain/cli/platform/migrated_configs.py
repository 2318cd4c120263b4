"""YAML and gin files that name modules of PEDL, Determined or the Model Garden."""

import pathlib
import re
from collections.abc import Iterator
from typing import Final

import yaml

from quintain import errors
from quintain.cli.platform import migrated_code
from quintain.records.config import experiment_dialects, foreign_imports

_MODULE: Final = re.compile(rf"(?:{'|'.join(foreign_imports.ROOTS)})(?:\.[A-Za-z_]\w*)+")
_GIN_IMPORT: Final = re.compile(r"^(\s*import\s+)([A-Za-z_][\w.]*)", re.MULTILINE)
_MENTION: Final = re.compile(
    rf"(?:(?<=import )|(?<=from )|(?<=-m ))(?:{'|'.join(foreign_imports.ROOTS)})\b[\w.]*"
)


def migrate_yaml(source: str, path: pathlib.Path) -> migrated_code.Migrated:
    """Returns a YAML file in which values that are former modules are Quintain's.

    What a config of an experiment says that can't be had is noted.

    Args:
        source: What the file says.
        path: The file, for messages.
    """
    try:
        nodes = list(yaml.compose_all(source, yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        note = migrated_code.Note(mark.line + 1 if mark else 1, "this is no YAML: left alone.")
        return migrated_code.Migrated(source, (note,))
    moved = source
    for node in sorted(_list_scalars(nodes), key=lambda each: -each.start_mark.index):
        former, colon, rest = str(node.value).partition(":")
        if _MODULE.fullmatch(former):
            start, end = node.start_mark.index, node.end_mark.index
            value = f"{foreign_imports.rename(former)}{colon}{rest}"
            moved = moved[:start] + source[start:end].replace(str(node.value), value) + moved[end:]
    return migrated_code.Migrated(moved, tuple(_check_experiment(moved, path)))


def migrate_gin(source: str) -> migrated_code.Migrated:
    """Returns a gin file whose imports are Quintain's."""

    def move(found: re.Match[str]) -> str:
        return found[1] + (foreign_imports.rename(found[2]) or found[2])

    return migrated_code.Migrated(_GIN_IMPORT.sub(move, source))


def find_mentions(source: str) -> migrated_code.Migrated:
    """Notes the lines of a script or a notebook that name former modules; changes nothing."""
    notes = [
        migrated_code.Note(number, f"{found[0]!r} was not rewritten.")
        for number, line in enumerate(source.splitlines(), start=1)
        for found in [_MENTION.search(line)]
        if found is not None
    ]
    return migrated_code.Migrated(source, tuple(notes))


def _list_scalars(nodes: list[yaml.Node]) -> Iterator[yaml.ScalarNode]:
    waiting = [node for node in nodes if node is not None]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue  # an alias of what was there before
        seen.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            yield node
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            waiting += [value for _, value in node.value]


def _check_experiment(source: str, path: pathlib.Path) -> Iterator[migrated_code.Note]:
    """Yields what is wrong with the config of an experiment, and what has no effect."""
    from quintain.config import yaml_io
    from quintain.records.config import experiment_spec

    try:
        content, lines = yaml_io.load_text(source, str(path)), yaml_io.find_lines(source)
    except errors.QuintainError:
        return
    if not isinstance(content, dict) or not isinstance(content.get("searcher"), dict):
        return
    unused = experiment_dialects.find_unused_fields(content)
    for name in unused:
        line = yaml_io.find_line(lines, name)
        yield migrated_code.Note(line, f"{name} has no effect here.")
    try:
        experiment_spec.parse(content)
    except errors.ConfigError as error:
        for problem in error.problems:
            line = yaml_io.find_line(lines, problem.path)
            yield migrated_code.Note(line, f"{problem.path}: {problem.message}")
