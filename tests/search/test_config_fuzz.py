"""Configs of experiments that nobody would write: each is refused with its place, or works.

`QUINTAIN_FUZZ=20000 pytest tests/search/test_config_fuzz.py` tries so many.
"""

import functools
import json
import math
import os
import pathlib
import random as random_lib

import jsonschema
import numpy as np
import pytest

from quintain import errors
from quintain.cli.experiment import file as experiment_file
from quintain.config import yaml_io
from quintain.master import new_experiments
from quintain.records.config import experiment_schema, experiment_spec
from quintain.records.rows import codec
from quintain.search import hyperparameters, search_factory, simulate
from quintain.search import space as space_lib
from quintain.testing import config_mutations

NUM_PARTS = 4
ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "platform").rglob("*.yaml"))
SPACE = {
    "x": {"type": "double", "minval": -1, "maxval": 1, "count": 3},
    "rate": {"type": "log", "base": 10, "minval": -4, "maxval": -1, "count": 2},
    "units": {"type": "int", "minval": 1, "maxval": 9, "count": 2},
    "group": {
        "kind": {"type": "categorical", "vals": ["a", "b"]},
        "momentum": {"type": "double", "minval": 0, "maxval": 1, "when": {"group.kind": "a"}},
    },
    "empty": {"kwargs": {}},
    "fixed": {"type": "const", "val": {"a": [1]}},
}
SEARCHERS = {
    "single": {"max_length": {"batches": 10}},
    "random": {"max_length": {"epochs": 1}, "max_trials": 4},
    "grid": {"max_length": {"batches": 10}, "max_concurrent_trials": 2},
    "adaptive": {"target_trial_steps": 16, "step_budget": 160, "max_rungs": 3},
    "adaptive_simple": {"max_steps": 100, "max_trials": 16, "mode": "aggressive"},
    "sync_halving": {"target_trial_steps": 16, "step_budget": 160, "num_rungs": 3},
    "async_halving": {"max_length": {"records": 160}, "max_trials": 12, "divisor": 3},
    "adaptive_asha": {"max_length": {"batches": 93}, "max_trials": 16, "bracket_rungs": [2, 1]},
    "pbt": {
        "population_size": 4,
        "num_rounds": 3,
        "steps_per_round": 2,
        "replace_function": {"truncate_fraction": 0.25},
        "explore_function": {"resample_probability": 0.2, "perturb_factor": 0.2},
    },
    "tpe": {"max_length": {"batches": 16}, "max_trials": 5, "num_rungs": 2},
    "gp": {"max_length": {"batches": 16}, "max_trials": 5, "num_startup_trials": 2},
    "auto": {"max_length": {"batches": 16}, "budget": 100},
}
SETTINGS = {
    "name": "n",
    "labels": ["a"],
    "data": {"path": "x"},
    "records_per_epoch": 100,
    "min_validation_period": {"batches": 3},
    "checkpoint_storage": {"host_path": "/tmp/x", "storage_path": "y", "save_trial_best": 2},
    "resources": {"slots_per_trial": 1, "weight": 2.0, "max_slots": 3, "shm_size": 5},
    "optimizations": {"mixed_precision": "O1"},
    "environment": {"environment_variables": ["A=1"], "image": "x"},
    "alerts": [{"on": ["error"], "command": "true"}, {"webhook": "http://127.0.0.1:1/x"}],
    "profiling": {"enabled": True, "begin_on_batch": 1, "end_after_batch": 2},
    "workload_timeout": 3.5,
    "max_restarts": 2,
    "bind_mounts": [],
    "reproducibility": {"experiment_seed": 3},
}


@functools.cache
def seeds():
    """Returns the good configs."""
    configs = [yaml_io.load_file(str(path)) for path in EXAMPLES]
    for name, fields in SEARCHERS.items():
        searcher = {"name": name, "metric": "loss", **fields}
        counts = {"group": {"kind": SPACE["group"]["kind"]}} if name == "grid" else {}
        space = {**SPACE, **counts, "global_batch_size": 8}
        configs.append({**SETTINGS, "hyperparameters": space, "searcher": searcher})
    return configs


@functools.cache
def validator():
    return jsonschema.Draft202012Validator(experiment_schema.build_schema())


def check_point(space, hparams):
    """Checks that all hyperparameters lie in their ranges and have their types."""
    for dimension in space.dimensions:
        value, kind = space_lib.get(hparams, dimension.path), dimension.hyperparameter
        match kind:
            case _ if dimension.when and value is None:
                pass
            case hyperparameters.Int(low, high):
                assert isinstance(value, int)
                assert low <= value <= high
            case hyperparameters.Double(low, high):
                assert isinstance(value, float)
                assert low <= value <= high
            case hyperparameters.Log(low, high, base):
                ends = sorted((base**low, base**high))
                assert isinstance(value, float)
                assert ends[0] * (1 - 1e-9) <= value <= ends[1] * (1 + 1e-9)
            case hyperparameters.Categorical(vals):
                assert value in list(vals)
            case hyperparameters.Const(val):
                assert value == val


def check_accepted(config, content):
    """Checks that a config can be stored, read again and searched."""
    plain = config.as_dict()
    assert experiment_spec.parse(yaml_io.load_text(yaml_io.dump(plain))) == config
    stored = json.loads(json.dumps(codec.to_plain(plain), allow_nan=False))
    assert experiment_spec.parse(stored) == config
    assert [error.message for error in validator().iter_errors(content)] == []
    search = search_factory.build_searcher(simulate.shrink(config, 20))
    metrics = np.random.RandomState(0)
    done = simulate.simulate(
        search,
        lambda *_: float(metrics.random_sample()),
        is_enough=lambda result: sum(map(len, result.validations.values())) > 60,
    )
    space = space_lib.Space.parse(config.hyperparameters)
    assert done.lengths
    for hparams in list(done.hparams.values())[:30]:
        check_point(space, hparams)
        json.dumps(hparams, allow_nan=False)


def check_refused(error, path):
    """Checks that each problem has its place, and that no message is endless."""
    assert len(str(error)) < 20_000
    for problem in error.problems or [error]:
        assert str(problem).startswith(f"{path}:"), str(problem)


@pytest.fixture
def num_mutations(is_long):
    return int(os.environ.get("QUINTAIN_FUZZ", 400 if is_long else 100))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(NUM_PARTS))
def test_any_experiment_is_refused_with_its_place_or_can_be_searched(part, num_mutations):
    for number in range(part, num_mutations, NUM_PARTS):
        random = random_lib.Random(number)
        content = config_mutations.mutate(random.choice(seeds()), random)
        try:
            config = experiment_spec.parse(content, lambda name: "f.yaml:1")
            search_factory.check(config, lambda name: "f.yaml:1")
        except errors.ConfigError as error:
            check_refused(error, "f.yaml")
        else:
            check_accepted(config, content)


@pytest.mark.slow
def test_any_text_is_refused_with_its_place_or_can_be_searched(tmp_path, num_mutations):
    path = tmp_path / "a [1] ü.yaml"
    for number in range(num_mutations // 4):
        random = random_lib.Random(-1 - number)
        text = config_mutations.mutate_text(yaml_io.dump(random.choice(seeds())), random)
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        try:
            config = experiment_file.load(str(path)).config
        except errors.ConfigError as error:
            check_refused(error, path)
            with pytest.raises(errors.ConfigError):
                new_experiments.build_config(new_experiments.read_content(text, "f.yaml"))
        else:
            check_accepted(config, yaml_io.load_text(text))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": {"type": None}}, r"hyperparameters\.a\.type: got None, expected one of 'const'"),
        ({"a": {"type": ["int"]}}, r"a\.type: got \['int'\], expected one of"),
        ({"a": {"type": "log", "minval": 300, "maxval": 309}}, r"a\.maxval: got 309.*beyond"),
        ({"a": {"type": "log", "minval": 0, "maxval": 1, "base": None}}, r"a\.base: got None"),
        ({"a": {"type": "double", "minval": -1e308, "maxval": 1e308}}, r"a\.minval: got -1e\+308"),
        ({"a": {"type": "int", "minval": 0, "maxval": 2**62}}, r"a\.maxval: got 46116860"),
        ({"a": math.nan}, r"hyperparameters\.a: got nan, expected a finite number"),
        ({"a": [1, {"b": math.inf}]}, r"hyperparameters\.a\[1\]\.b: got inf"),
        ({"a": {"type": "const", "val": "\0"}}, r"a\.val: .*without the character NUL"),
        ({1: 2}, r"hyperparameters\.1: got the name 1, expected text; put it in quotes"),
        ({"g": {"a": 1}, "g.a": 2}, r"hyperparameters\.g\.a: given twice"),
    ],
)
def test_mistakes_that_used_to_crash_are_named(change, message):
    content = {**seeds()[-1], "hyperparameters": change}

    with pytest.raises(errors.ConfigError, match=message):
        search_factory.check(experiment_spec.parse(content))
