"""Compares PyYAML's tables before and after the package is imported and used."""

import json

import yaml

classes = [
    yaml.Loader,
    yaml.SafeLoader,
    yaml.FullLoader,
    yaml.UnsafeLoader,
    yaml.Dumper,
    yaml.SafeDumper,
    yaml.CLoader,
    yaml.CSafeLoader,
    yaml.CDumper,
    yaml.CSafeDumper,
]
tables = [
    "yaml_constructors",
    "yaml_multi_constructors",
    "yaml_implicit_resolvers",
    "yaml_path_resolvers",
    "yaml_representers",
    "yaml_multi_representers",
]


def snapshot():
    return [
        (cls.__name__, name, sorted(map(repr, getattr(cls, name).items())))
        for cls in classes
        for name in tables
        if hasattr(cls, name)
    ]


before = snapshot()
# Imported for what they might change.
import quintain.cli.main  # noqa: F401
import quintain.nlp.tasks  # noqa: F401
import quintain.registered_experiments  # noqa: F401
import quintain.run.experiment_parser  # noqa: F401
from quintain.config import yaml_io
from quintain.core import config_definitions as cfg

yaml_io.dump(cfg.ExperimentConfig().as_dict())
after = snapshot()
print(json.dumps([left[:2] for left, right in zip(before, after, strict=True) if left != right]))
