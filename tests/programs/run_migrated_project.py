"""Makes data, trains and exports by the programs of `examples/migration/garden`.

python run_migrated_project.py PROJECT DIRECTORY
"""

import os
import sys

from absl import app, flags

PROJECT, DIRECTORY = sys.argv[1:]
TRAINING = {"train_steps": 4, "validation_interval": 2, "checkpoint_interval": 2}
OVERRIDES = [
    f"task.train_data.input_path={DIRECTORY}/train.tfrecord",
    f"task.validation_data.input_path={DIRECTORY}/valid.tfrecord",
    "trainer.steps_per_loop=2",
    "trainer.summary_interval=2",
    *(f"trainer.{name}={value}" for name, value in TRAINING.items()),
]


def run(main, **values):
    """Runs a program's `main` with these flags, as the command line gives them."""
    app.parse_flags_with_usage(
        ["program", *(f"--{name}={value}" for name, value in values.items())]
    )
    main([])
    flags.FLAGS.unparse_flags()


sys.path.insert(0, PROJECT)
os.chdir(PROJECT)

from topics import make_data, train

from quintain.common import flags as tfm_flags

run(make_data.main, output_dir=DIRECTORY, num_examples=64)
tfm_flags.define_flags()
run(
    train.main,
    experiment="topics/bert",
    config_file="topics/configs/tiny.yaml",
    gin_file="topics/configs/quiet.gin",
    mode="train_and_eval",
    model_dir=f"{DIRECTORY}/run",
    params_override=",".join(OVERRIDES),
)
for name in ("experiment", "model_dir"):
    delattr(flags.FLAGS, name)
from topics import export

run(export.main, model_dir=f"{DIRECTORY}/run", export_dir=f"{DIRECTORY}/model")
