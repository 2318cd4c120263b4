"""Configs of trainings that nobody would write: each is refused with its place, or is kept whole.

`QUINTAIN_FUZZ=20000 pytest tests/core/test_config_fuzz.py` tries so many.
"""

import dataclasses
import functools
import os
import random as random_lib
import sys
import types
import typing

import pytest

import quintain.registered_experiments  # noqa: F401 - registers the experiments
from quintain import errors
from quintain.config import base_config, class_definitions, gin_io, yaml_io
from quintain.core import exp_factory
from quintain.core.multitask import configs as multitask_configs
from quintain.core.progressive import configs as progressive_configs
from quintain.run import experiment_parser
from quintain.testing import config_mutations

UNLIMITED = {
    ("DataConfig", "seed"),
    ("RuntimeConfig", "seed"),
    ("DifferentialPrivacyConfig", "noise_seed"),
    ("RuntimeConfig", "task_index"),
    ("RuntimeConfig", "default_shard_dim"),
    ("TrainerConfig", "recovery_max_trials"),
}
"""Integers of which all of 64 bits mean something, or which `check` looks at."""


NAMES = exp_factory.registered_experiments()
"""Before examples in docstrings, which run as tests as well, register their own."""


@functools.cache
def experiments():
    """Returns the registered experiments' values by name."""
    return {name: exp_factory.get_exp_config(name).as_dict() for name in NAMES}


def check_refused(error, *places):
    assert len(str(error)) < 20_000
    for problem in error.problems or [error]:
        assert str(problem).startswith(places), str(problem)


def check_kept(parsed, path):
    """Checks that `params.yaml` says all."""
    path.write_text(yaml_io.dump({"experiment": parsed.name, **parsed.params.as_dict()}))
    assert experiment_parser.load_params(str(path)) == parsed.params


@pytest.fixture
def num_mutations(is_long):
    return int(os.environ.get("QUINTAIN_FUZZ", 200 if is_long else 60))


@pytest.mark.slow
def test_any_file_is_refused_with_its_place_or_kept_whole(tmp_path, num_mutations):
    path = tmp_path / "a [1] ü.yaml"
    for number in range(num_mutations):
        random = random_lib.Random(number)
        name = random.choice(list(experiments()))
        if number % 4:
            content = config_mutations.mutate(experiments()[name], random)
            try:
                text = yaml_io.dump(content)
            except (errors.ConfigError, ValueError, RecursionError):
                continue
        else:
            text = config_mutations.mutate_text(yaml_io.dump(experiments()[name]), random)
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        options = experiment_parser.ParseConfigOptions(experiment=name, config_file=[str(path)])
        try:
            parsed = experiment_parser.parse(options)
        except errors.ConfigError as error:
            check_refused(error, f"{path}", "factory")
        else:
            check_kept(parsed, tmp_path / "params.yaml")


@pytest.mark.slow
def test_any_override_is_refused_with_its_place_or_kept_whole(tmp_path, num_mutations):
    for number in range(num_mutations // 2):
        random = random_lib.Random(-1 - number)
        name = random.choice(list(experiments()))
        places = config_mutations.list_places(experiments()[name])
        place = ".".join(map(str, random.choice(places)))
        value = random.choice([*config_mutations.TEXTS, *map(_show, config_mutations.SCALARS)])
        options = experiment_parser.ParseConfigOptions(experiment=name, set=[f"{place}={value}"])
        try:
            parsed = experiment_parser.parse(options)
        except errors.ConfigError as error:
            check_refused(error, "--set", "override", "factory")
        else:
            check_kept(parsed, tmp_path / "params.yaml")


@pytest.mark.parametrize(
    "value", ["[" * 30_000, "(" * 5000, "-" * 5000 + "1", "9" * 5000, "{" * 500, "\0", "@", "'"]
)
def test_any_gin_binding_is_refused_with_its_place(value):
    with pytest.raises(errors.ConfigError, match="gin"):
        gin_io.parse_files_and_params([], [f"Trainer.train = {value}"])
    gin_io.clear()


def test_a_misfit_of_two_fields_names_the_line(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text("trainer:\n  steps_per_loop: 3\n  summary_interval: 10\n")
    options = experiment_parser.ParseConfigOptions(
        experiment="translation/local", config_file=[str(path)]
    )

    with pytest.raises(errors.ConfigError, match=r"my\.yaml:3: trainer\.summary_interval: got 10"):
        experiment_parser.parse(options)


def _show(value):
    return repr(value) if not isinstance(value, int) else hex(value)


# Those of the platform are there if other tests were run before; they have checks of their own.
PLATFORM = ("quintain.records.", "quintain.search.")


def _list_config_classes(cls=base_config.Config):
    for sub in cls.__subclasses__():
        module = sub.__module__
        # Those of examples in docstrings are not there.
        is_there = getattr(sys.modules.get(module), sub.__name__, None) is sub
        if is_there and module.startswith("quintain.") and not module.startswith(PLATFORM):
            yield sub
        yield from _list_config_classes(sub)


def _find_numbers(annotation, bounds=()):
    """Yields the numbers inside an annotation, each with what bounds it."""
    if annotation in (int, float):
        yield annotation, bounds
    elif typing.get_origin(annotation) is typing.Annotated:
        inner, *own = typing.get_args(annotation)
        yield from _find_numbers(inner, own)
    elif typing.get_origin(annotation) in (list, tuple, dict, typing.Union, types.UnionType):
        for part in typing.get_args(annotation):
            yield from _find_numbers(part)


def _is_bounded(bounds, names):
    return any(getattr(bound, name, None) is not None for bound in bounds for name in names)


def test_every_number_in_every_config_has_both_bounds():
    assert multitask_configs
    assert progressive_configs
    unbounded = []
    for cls in _list_config_classes():
        for field in dataclasses.fields(cls):
            for _, bounds in _find_numbers(class_definitions.annotations(cls)[field.name]):
                is_bounded = _is_bounded(bounds, ("ge", "gt")) and _is_bounded(bounds, ("le", "lt"))
                owner = {(base.__name__, field.name) for base in cls.__mro__}
                if not is_bounded and not owner & UNLIMITED:
                    unbounded.append(f"{cls.__name__}.{field.name}")

    assert unbounded == []
