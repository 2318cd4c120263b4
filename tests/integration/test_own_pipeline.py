import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf


def _train(model_dir, data_dir, **environment):
    return subprocess.run(
        [
            sys.executable, "-m", "quintain.cli.main", "train", "--import=own_pipeline",
            "--experiment=test/own_pipeline", f"--model_dir={model_dir}",
            f"--set=task.data_dir={data_dir}", "--alsologtostderr",
        ],
        env=os.environ
        | {"PYTHONPATH": str(pathlib.Path(__file__).parent), "TF_CPP_MIN_LOG_LEVEL": "3"}
        | environment,
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip


def _read(model_dir):
    reader = tf.train.load_checkpoint(f"{model_dir}/ckpt-34")
    names = sorted(reader.get_variable_to_shape_map())
    return {name: reader.get_tensor(name) for name in names if "OBJECT_GRAPH" not in name}


@pytest.mark.long(
    "test_kill_and_resume.py kills a run; tests/core/test_data_position.py resumes pipelines"
)
@pytest.mark.slow
@pytest.mark.e2e
def test_an_own_task_with_an_everyday_pipeline_goes_on_to_the_bit_after_a_kill(tmp_path):
    directory, data_dir = tmp_path, tmp_path / "a [1] ü"
    data_dir.mkdir(parents=True)
    for index in range(4):
        lines = "".join(f"{number}\n" for number in range(6 * index, 6 * index + 6))
        (data_dir / f"{index}.txt").write_text(lines)

    whole = _train(directory / "whole", data_dir)
    killed = _train(directory / "killed", data_dir, KILL_AT_STEP="23")
    resumed = _train(directory / "killed", data_dir)

    assert whole.returncode == 0, whole.stderr
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert resumed.returncode == 0, resumed.stderr
    assert "Reading past the" in resumed.stderr
    expected, found = _read(directory / "whole"), _read(directory / "killed")
    assert any("task_variables" in name for name in expected)
    assert expected.keys() == found.keys()
    different = [name for name in expected if not np.array_equal(expected[name], found[name])]
    assert not different
