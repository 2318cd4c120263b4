import pathlib

import jsonschema
import pytest

from quintain.config import yaml_io
from quintain.records.config import experiment_schema

ROOT = pathlib.Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples" / "platform").rglob("*.yaml"))


@pytest.fixture(scope="module")
def validator():
    schema = experiment_schema.build_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_examples_are_valid_in_both_dialects(validator, path):
    assert list(validator.iter_errors(yaml_io.load_file(str(path)))) == []


def test_exported_configs_are_valid(validator):
    content = yaml_io.load_file(str(ROOT / "tests" / "records" / "config" / "exported.yaml"))

    assert list(validator.iter_errors(content)) == []


@pytest.mark.parametrize(
    "change",
    [
        {"descripton": "x"},
        {"searcher": {"name": "singel", "metric": "loss", "max_steps": 1}},
        {"searcher": {"name": "single", "metric": "loss", "max_trials": 1}},
        {"hyperparameters": {"a": {"type": "int", "minval": 1}}},
        {"hyperparameters": {"a": {"type": "categorical", "vals": []}}},
        {"min_validation_period": {"batch": 3}},
    ],
)
def test_mistakes_are_found(validator, change):
    content = {"searcher": {"name": "single", "metric": "loss", "max_steps": 1}, **change}
    assert list(validator.iter_errors(content))
