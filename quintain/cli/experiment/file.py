"""The config of an experiment as the user wrote it: read, and checked as a whole."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from quintain import errors
from quintain.client.home import home as home_lib
from quintain.config import overrides as overrides_lib
from quintain.config import plain_data, yaml_io
from quintain.records.config import experiment_dialects, experiment_spec, experiment_templates

TEMPLATES: Final = "templates"
"""Directory of the home with configs that others may be laid over, by name."""


@dataclasses.dataclass(frozen=True)
class ExperimentFile:
    """A config that is fine."""

    path: str
    """The file."""

    text: str
    """What it says."""

    config: experiment_spec.ExperimentSpec
    """The complete config, with the overrides."""

    lines: dict[str, int]
    """The line of each dotted path in the file."""

    unused_fields: tuple[str, ...] = ()
    """Fields that have no effect here."""

    def locate(self, path: str) -> str:
        """Returns file and line of a dotted path."""
        return f"{self.path}:{yaml_io.find_line(self.lines, path)}"


def merge_overrides(assignments: Sequence[str]) -> dict[str, Any]:
    """Returns `path=value` texts as one nested mapping; the last one wins.

    Raises:
        ConfigError: If one of them is malformed.
    """
    merged: dict[str, Any] = {}
    for text in assignments:
        merged = overrides_lib.merge(merged, overrides_lib.parse_assignment(text))
    return merged


def find_template(name: str) -> str:
    """Returns the file of a template: the one named, or `NAME.yaml` among those of the home.

    Raises:
        ConfigError: If there is none.
    """
    if os.path.exists(name):
        return name
    directory = home_lib.find_home().path / TEMPLATES
    path = directory / f"{name}.yaml"
    if path.exists():
        return str(path)
    known = sorted(each.stem for each in directory.glob("*.yaml"))
    listed = f" There are: {', '.join(known)}.{errors.suggest(name, known)}" if known else ""
    raise errors.ConfigError(f"--template: there is no file {name}, and no {path}.{listed}")


def load(path: str, assignments: Sequence[str] = (), template: str | None = None) -> ExperimentFile:
    """Reads a config and checks it, and the space of its hyperparameters.

    Args:
        path: A YAML file.
        assignments: `path=value` texts that win over it.
        template: File, or name, of a config that it is laid over.

    Raises:
        ConfigError: Listing all that is wrong, with file and line.
    """
    content, lines = yaml_io.load_file_with_lines(path)
    text = pathlib.Path(path).read_text(encoding="utf-8")
    below: dict[str, int] = {}
    if template is not None:
        template = find_template(template)
        base, below = yaml_io.load_file_with_lines(template)
        content = experiment_templates.merge(base, content)
        text = yaml_io.dump(content)
    merged = overrides_lib.merge(content, merge_overrides(assignments))

    assigned = [text.partition("=")[0] for text in assignments]

    def locate(name: str) -> str:
        if any(f"{name}.".startswith(f"{each}.") for each in assigned):
            return "--set"
        if name not in lines and name in below:
            return f"{template}:{below[name]}"
        return f"{path}:{yaml_io.find_line(lines, name)}"

    problems: list[errors.Problem] = []
    config = None
    try:
        config = experiment_spec.parse(merged, locate)
    except errors.ConfigError as error:
        problems += error.problems or [errors.Problem("", str(error))]
    try:
        _check_space(merged, config, locate)
    except errors.ConfigError as error:
        problems += error.problems or [errors.Problem("", str(error))]
    if problems or config is None:
        raise errors.ConfigError.from_problems(problems)
    unused = experiment_dialects.find_unused_fields(merged)
    return ExperimentFile(path, text, config, lines, tuple(unused))


def _check_space(
    content: dict[str, Any],
    config: experiment_spec.ExperimentSpec | None,
    locate: Callable[[str], str],
) -> None:
    """Checks the hyperparameters, and how they are searched if that is known."""
    from quintain.search import search_factory
    from quintain.search import space as space_lib

    space = content.get("hyperparameters")
    if config is not None:
        search_factory.check(config, locate)
    elif isinstance(space, dict) and not any(plain_data.find_faults(space, is_json=True)):
        with errors.located(locate):
            space_lib.Space.parse(space)
