import json
import pathlib

import pytest

PROGRAM = pathlib.Path(__file__).parents[2] / "programs/model_garden_train.py"
STEPS = ("train_steps", "validation_interval", "validation_steps")
EACH = ("steps_per_loop", "summary_interval", "checkpoint_interval")
TRAINER = dict.fromkeys(STEPS, 2) | dict.fromkeys(EACH, 1)
SIZE = {"num_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
MODELS = {
    "bert/local": {"encoder": {"bert": {"hidden_size": 8, **SIZE}}},
    "translation/local": {"embedding_width": 8, "encoder": SIZE, "decoder": SIZE},
}


@pytest.mark.long("Further cases of a test of which some run every time", but=["translation/local"])
@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize("experiment", MODELS)
def test_a_program_of_the_model_garden_trains(tmp_path, run_python, experiment):
    model_dir = tmp_path / "run"
    override = {"trainer": TRAINER, "task": {"model": MODELS[experiment]}}

    done = run_python(
        PROGRAM,
        f"--experiment={experiment}",
        "--mode=train",
        f"--model_dir={model_dir}",
        f"--params_override={json.dumps(override)}",
        "--gin_params=OptimizerFactory.build_optimizer.use_legacy_optimizer = False",
        cwd=tmp_path,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    written = {path.name for path in model_dir.iterdir()}
    assert {"params.yaml", "operative_config.train.gin", "ckpt-2.index"} <= written
    assert "use_legacy_optimizer = False" in (model_dir / "operative_config.train.gin").read_text()


OWN_MAIN = """
from absl import app
from quintain.garden.common import flags as tfm_flags
from quintain.nlp import train
from quintain.garden.utils.testing import mock_task
tfm_flags.define_flags()
app.run(train.main)
"""


@pytest.mark.long("Further cases of a test of which some run every time")
@pytest.mark.slow
@pytest.mark.e2e
def test_the_main_function_of_the_training_program_can_be_called(tmp_path, run_python):
    chosen = {"optimizer": {"type": "sgd"}, "learning_rate": {"type": "constant"}}
    override = {"trainer": TRAINER | {"optimizer_config": chosen}}

    done = run_python(
        "-c",
        OWN_MAIN,
        "--experiment=mock",
        "--mode=train_and_eval",
        f"--model_dir={tmp_path}",
        f"--params_override={json.dumps(override)}",
    )

    assert done.returncode == 0, done.stderr[-3000:]
    assert {"params.yaml", "ckpt-2.index", "evaluations.jsonl"} <= {
        path.name for path in tmp_path.iterdir()
    }
