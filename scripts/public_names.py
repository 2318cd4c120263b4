#!/usr/bin/env python
"""Prints names that stay, or go by way of a deprecation.

    PYTHONPATH=. scripts/public_names.py > tests/contracts/public_names.txt

Each line is one: a command and its options, an experiment, a field of a config, of a search's file,
an address of the master, a name of Python with its arguments. `docs/reference/stability.md` says
what follows; names of the Model Garden have a list of their own (`inventory.py`).
"""

import importlib
import inspect
import sys
from collections.abc import Iterator
from typing import Any

import click

import quintain.registered_experiments  # noqa: F401 - registers them
from quintain.cli import main
from quintain.config import base_config
from quintain.core import exp_factory
from quintain.records.config import experiment_schema
from quintain.server.security import path_rules

PACKAGES = (
    "quintain",
    "quintain.client",
    "quintain.config",
    "quintain.optimization",
    "quintain.orbit",
    "quintain.trials",
    "quintain.trials.estimator",
    "quintain.trials.keras",
    "quintain.trials.tensorflow",
)


def list_names() -> list[str]:
    """Returns all public names, sorted."""
    found = {f"address {method} {path}" for path, by in path_rules.TABLE.items() for method in by}
    found.update(_list_commands(main.cli, "quintain"))
    found.update(_list_search_fields())
    for name in exp_factory.registered_experiments():
        if exp_factory.EXPERIMENTS.lookup(name).__module__.startswith("quintain."):
            found.add(f"experiment {name}")
            found.update(_list_fields(exp_factory.get_exp_config(name)))
    for package in PACKAGES:
        for name, value in list_offered(package):
            found.update(_list_callable(value, f"name {package}.{name}"))
    return sorted(found)


def list_offered(package: str) -> Iterator[tuple[str, Any]]:
    """Yields the public functions and classes of a package that are ours, by name."""
    module = importlib.import_module(package)
    for name in dir(module):
        # Names with a dot are other ways to modules, which the Model Garden's list has.
        if not name.startswith("_") and "." not in name:
            value = getattr(module, name)
            if _is_ours(value):
                yield name, value


def _list_commands(command: click.Command, path: str) -> Iterator[str]:
    yield f"command {path}"
    for param in command.params:
        if isinstance(param, click.Option) and not param.hidden:
            yield from (f"command {path} {name}" for name in (*param.opts, *param.secondary_opts))
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from _list_commands(below, f"{path} {name}")


def _list_search_fields() -> Iterator[str]:
    schema = experiment_schema.build_schema()
    for title, part in {"experiment": schema, **schema["$defs"]}.items():
        yield from (f"search {title}.{name}" for name in part.get("properties", ()))


def _list_fields(config: Any) -> Iterator[str]:
    if isinstance(config, list | tuple):
        for part in config:
            yield from _list_fields(part)
    elif isinstance(config, base_config.Config) and _is_ours(type(config)):
        for name in vars(config):
            if name in config:
                yield f"field {type(config).__name__}.{name}"
                yield from _list_fields(config.get(name))


def _list_callable(value: Any, path: str) -> Iterator[str]:
    yield path
    if inspect.isclass(value) and issubclass(value, base_config.Config):
        return  # Its fields are those of `_list_fields`.
    yield from (f"{path}({argument})" for argument in _list_arguments(value))
    if inspect.isclass(value):
        for name in dir(value):
            owner = next((base for base in value.__mro__ if name in vars(base)), object)
            if not name.startswith("_") and _is_ours(owner):
                yield f"{path}.{name}"
                method = getattr(value, name)
                if inspect.isroutine(method):
                    arguments = _list_arguments(method)
                    yield from (f"{path}.{name}({argument})" for argument in arguments)


def _list_arguments(value: Any) -> list[str]:
    try:
        names = inspect.signature(value).parameters
    except ValueError:
        return []
    return [name for name in names if name != "self" and not name.startswith("_")]


def _is_ours(value: Any) -> bool:
    is_named = inspect.isclass(value) or inspect.isroutine(value)
    return is_named and value.__module__.partition(".")[0] == "quintain"


if __name__ == "__main__":
    sys.stdout.write("".join(f"{name}\n" for name in list_names()))
