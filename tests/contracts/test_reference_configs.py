"""Full dumps of the reference's configs, at their default values, load.

`reference_configs.json` says the fields and defaults of the reference's classes of configs and of
its experiments, as facts: a dump of each, where `{"@": path, ...}` is the default of another class
with some fields that differ. The values of a choice are all there, not only the chosen one.
"""

import functools
import importlib
import json
import pathlib

import pytest

from quintain.config import base_config, yaml_io
from quintain.core import exp_factory
from quintain.nlp import experiments as experiments

FACTS = json.loads(pathlib.Path(__file__).with_name("reference_configs.json").read_text())
CLASSES = FACTS["classes"]

DIFFERENT = {
    "loss_upper_bound": None,  # A large loss is no blow-up unless a bound says so.
    "name": "next_sentence",  # Of a classifier: the one that is trained on sentence pairs.
    "file_type": "auto",
    "deterministic": None,  # The order of examples is fixed unless it is given up.
}
"""Our defaults where they are others, by the names of fields."""


def expand(value):
    if isinstance(value, list):
        return [expand(part) for part in value]
    if not isinstance(value, dict):
        return value
    base = expand(CLASSES[value["@"]]) if "@" in value else {}
    return base | {name: expand(part) for name, part in value.items() if name != "@"}


@functools.cache
def find_class(path):
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(f"quintain.{module}"), name)
    except ModuleNotFoundError:
        return getattr(find_class(module), name)  # A class inside of a class.


def read(config):
    """Returns all values of a config; `as_dict` leaves out what a choice did not choose."""
    if isinstance(config, base_config.Config):
        return {name: read(config.get(name)) for name in config.__dict__ if name in config}
    if isinstance(config, list | tuple):
        return [read(part) for part in config]
    return config


def find_differences(given, found, path=""):
    """Yields the paths of values that are not what was given, with what they are."""
    for name, value in given.items():
        here = f"{path}.{name}".lstrip(".")
        if isinstance(value, dict) and isinstance(found.get(name), dict):
            yield from find_differences(value, found[name], here)
        elif found.get(name, "missing") != value:
            yield here, found.get(name, "missing")


@pytest.mark.parametrize("path", CLASSES)
def test_a_full_dump_of_a_class_loads(path, tmp_path):
    values = expand(CLASSES[path])
    file = tmp_path / "dump.yaml"
    file.write_text(yaml_io.dump(values))

    config = find_class(path).from_yaml(str(file))

    assert list(find_differences(values, read(config))) == []


@pytest.mark.parametrize("path", CLASSES)
def test_the_defaults_are_those_of_the_reference(path):
    found = dict(find_differences(expand(CLASSES[path]), read(find_class(path)())))

    # The data of a task is that of its loader, not of any.
    own = {name for name in found if not name.startswith(("train_data.", "validation_data."))}
    other = {name for name in own if DIFFERENT.get(name.rpartition(".")[2], "") != found[name]}
    assert other == set()


@pytest.mark.parametrize("name", FACTS["experiments"])
def test_a_full_dump_of_an_experiment_loads(name):
    params = exp_factory.get_exp_config(name)

    params.override(expand(FACTS["experiments"][name]))

    assert list(find_differences(expand(FACTS["experiments"][name]), read(params))) == []
