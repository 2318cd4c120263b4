"""Configs: typed, checked, overridden, locked and written to YAML.

python examples/01_configs.py
"""

import dataclasses

from quintain import config, errors
from quintain.config import yaml_io


@dataclasses.dataclass
class ModelConfig(config.Config):
    """A small network."""

    width: int = 64
    """Neurons of each layer."""

    activation: str = "relu"
    """Keras' name of the activation."""


@dataclasses.dataclass
class RunConfig(config.Config):
    """A run."""

    model: ModelConfig = ModelConfig()
    """The network."""

    learning_rate: float = 1e-3
    """Step size."""


def main() -> None:
    """Shows what a config can do."""
    run = RunConfig({"model": {"width": 128}}, restrictions=["learning_rate < 1.0"])
    run.override({"learning_rate": 0.01})
    run.validate()
    run.lock()
    print(yaml_io.dump(run.as_dict()))

    try:
        run.replace(model={"widht": "wide", "width": "wide"})
    except errors.ConfigError as error:
        print(error)


if __name__ == "__main__":
    main()
