"""An experiment of your own: a name for a config, which the command line can then train.

python examples/03_own_experiment.py            # what the config says
cd examples && quintain train --import=03_own_experiment --experiment=examples/tiny_translation \
    --model-dir=/tmp/tiny
"""

from quintain.core import config_definitions as cfg
from quintain.core import exp_factory
from quintain.nlp.experiments import translation


@exp_factory.register_config_factory("examples/tiny_translation")
def tiny_translation() -> cfg.ExperimentConfig:
    """Learns numbers and dates with a model of a tenth of the size, in half a minute."""
    config = translation.translation_local()
    layers = {"num_layers": 1, "num_attention_heads": 2, "intermediate_size": 128}
    config.override(
        {
            "task": {"model": {"embedding_width": 48, "encoder": layers, "decoder": layers}},
            "trainer": {"train_steps": 400, "validation_interval": 400},
        }
    )
    return config


def main() -> None:
    """Prints where the experiment differs from the one it starts from."""
    name = "examples/tiny_translation"
    print(exp_factory.registered_experiments()[name])
    print(exp_factory.get_exp_config(name).task.model)


if __name__ == "__main__":
    main()
