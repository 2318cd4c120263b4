"""The examples run."""

import os
import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


def run(command):
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )


@pytest.mark.long(
    "tests/contracts/test_docs.py runs the code of the pages",
    but=["02_own_task.py-validation_loss", "06_orbit_loop.py-step 100: accuracy"],
)
@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("01_configs.py", "model.widht: unknown; ModelConfig has no such field."),
        ("02_own_task.py", "validation_loss"),
        ("03_own_experiment.py", "embedding_width=48"),
        ("05_own_optimizer.py", "SignDescent: [1.39999"),
        ("06_orbit_loop.py", "step 100: accuracy"),
        ("07_several_tasks.py", "cosine {'absolute_error'"),
    ],
)
def test_example_runs(name, expected, run_python):
    result = run_python(EXAMPLES / name)

    assert result.returncode == 0, result.stderr
    assert expected in result.stdout


@pytest.mark.long("tests/run/fitting shows it")
@pytest.mark.slow
@pytest.mark.e2e
def test_the_moved_keras_script_is_known_to_commands(tmp_path, run_python):
    script = EXAMPLES / "migration" / "keras_script" / "after.py"
    (tmp_path / "moved.py").write_text(script.read_text().replace("epochs=50", "epochs=2"))

    trained = run_python(tmp_path / "moved.py", tmp_path / "run")
    command = ["predict", f"--model_dir={tmp_path}/run", "--data=validation"]
    predicted = run(["quintain", *command])

    assert trained.returncode == 0, trained.stderr
    assert "best accuracy" in trained.stdout
    assert predicted.stdout.count("outputs") == 600, predicted.stderr


@pytest.mark.long("tests/e2e/test_roads.py walks such a way")
@pytest.mark.slow
@pytest.mark.e2e
def test_example_with_own_data_runs(tmp_path):
    result = run([str(EXAMPLES / "04_own_data.sh"), str(tmp_path)])

    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 1
    assert (tmp_path / "run" / "params.yaml").exists()


def test_every_example_is_run():
    names = sorted(path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".sh"))

    assert names == [
        "01_configs.py",
        "02_own_task.py",
        "03_own_experiment.py",
        "04_own_data.sh",
        "05_own_optimizer.py",
        "06_orbit_loop.py",
        "07_several_tasks.py",
        # These are run by tests/e2e/test_roads.py.
        "bert_road.sh",
        "dual_encoder_road.sh",
        "electra_road.sh",
        "fine_tuning_road.sh",
        "image_road.sh",
        "serve_and_ask.sh",
        "squad_road.sh",
        "tabular_road.sh",
        "tagging_road.sh",
        "translation_road.sh",
    ]
