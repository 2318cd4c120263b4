"""Training program: `python -m quintain.garden.nlp.train` is `quintain train`.

`main` is for programs with flags of `absl`: `tfm_flags.define_flags(); app.run(train.main)`.
"""

import sys
from typing import Any

from absl import flags

from quintain.cli import main as cli

FLAGS = flags.FLAGS

flags.DEFINE_integer("pretrain_steps", None, "Step of the last checkpoint to fine-tune.")
flags.DEFINE_bool("enable_async_checkpointing", True, "Write checkpoints in the background.")


def main(_: Any) -> None:
    """Trains and evaluates the experiment that the flags of `quintain.common.flags` describe.

    Raises:
        QuintainError: If a flag or the config is wrong, or the run can't go on.
    """
    # TensorFlow is loaded when it is used.
    from quintain.nlp import continuous_finetune_lib, experiments  # noqa: F401, PLC0415
    from quintain.run import experiment_parser, run_options, train_lib  # noqa: PLC0415

    parsed = experiment_parser.parse(experiment_parser.to_options(FLAGS))
    if FLAGS.mode == "continuous_train_and_eval":
        continuous_finetune_lib.run_continuous_finetune(
            FLAGS.mode, parsed.params, FLAGS.model_dir, pretrain_steps=FLAGS.pretrain_steps
        )
        return
    train_lib.train_from_config(
        parsed.params,
        FLAGS.mode,
        FLAGS.model_dir,
        experiment=parsed.name,
        imports=parsed.imports,
        options=run_options.RunOptions(enable_async_checkpointing=FLAGS.enable_async_checkpointing),
    )


if __name__ == "__main__":
    cli.main(["train", *sys.argv[1:]])
