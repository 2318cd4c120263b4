"""The user's code is imported in a process of its own before an experiment is created."""

import time

import pytest

from quintain import errors
from quintain.cli.experiment import file as experiment_file
from quintain.cli.experiment import model_check
from quintain.master.processes import process_launcher

pytestmark = pytest.mark.slow

CONFIG = """
name: x
entrypoint: model_def:Mine
hyperparameters: {lr: 0.1}
searcher: {name: single, metric: loss, max_length: 10}
"""

GOOD = """
from quintain.trials import base_trial

print("printed at import")


class Mine(base_trial.Trial):
    controller_module = "json"
"""


@pytest.fixture(scope="module")
def launcher():
    """Returns what starts the checks of all tests, as copies of one warm process."""
    launcher = process_launcher.ProcessLauncher(preloaded=("quintain.trials.base_trial",))
    yield launcher
    launcher.close(kill=True)


@pytest.fixture
def check(tmp_path, launcher):
    """Returns a function that writes the code and checks it."""

    def write_and_check(code, entrypoint="model_def:Mine"):
        path = tmp_path / "config.yaml"
        path.write_text(CONFIG.replace("model_def:Mine", entrypoint))
        model_dir = tmp_path / "model"
        model_dir.mkdir(exist_ok=True)
        (model_dir / "model_def.py").write_text(code)
        model_check.ModelCheck(experiment_file.load(str(path)), model_dir, launcher).finish()

    return write_and_check


def test_code_that_is_fine_passes_whatever_it_prints(check):
    check(GOOD)


@pytest.mark.long("Further cases of a test of which some run every time", but=["code0", "code1"])
@pytest.mark.parametrize(
    ("code", "entrypoint", "message"),
    [
        (GOOD, "model_dfe:Mine", r"config\.yaml:3: entrypoint: .*no module 'model_dfe'.*model_def"),
        (GOOD, "model_def:Mien", r"config\.yaml:3: entrypoint: .*has no 'Mien'.*Mine"),
        ("import nothing_like_it\n", "model_def:Mine", r"model_def\.py:1: .*nothing_like_it"),
        ("x = 1 +\n", "model_def:Mine", r"model_def\.py:1: .*SyntaxError"),
        ("raise SystemExit(3)\n", "model_def:Mine", r"importing it exits with 3"),
        (
            "import os\nos._exit(7)\n",
            "model_def:Mine",
            r"config\.yaml:3: entrypoint: the process that checks it ended with 7",
        ),
    ],
)
def test_code_that_can_not_be_run_is_reported_where_it_is_named(check, code, entrypoint, message):
    with pytest.raises(errors.ConfigError, match=f"(?s){message}"):
        check(code, entrypoint)


def test_what_is_checked_does_not_stay_in_the_process_that_trials_are_copied_from(check):
    check("import sys\nsys.modules['seen'] = sys\n" + GOOD)

    check(GOOD.replace("class Mine", "import sys\n\nassert 'seen' not in sys.modules\nclass Mine"))


def test_a_check_that_is_canceled_ends(tmp_path, launcher):
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    model_dir = tmp_path / "model"
    model_dir.mkdir()
    begun = tmp_path / "begun"
    (model_dir / "model_def.py").write_text(
        f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\ntime.sleep(600)\n"
    )
    pending = model_check.ModelCheck(experiment_file.load(str(path)), model_dir, launcher)
    deadline = time.monotonic() + 60.0
    while not begun.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)

    pending.cancel()


def test_code_is_checked_with_the_variables_of_the_experiment(check, tmp_path, launcher):
    code = f"import time\nassert time.tzname[0] == 'Probe', time.tzname\n{GOOD}"
    with pytest.raises(errors.ConfigError, match="AssertionError"):
        check(code)
    path = tmp_path / "config.yaml"
    path.write_text(f"{CONFIG}environment: {{environment_variables: [TZ=Probe-5:30]}}\n")
    file = experiment_file.load(str(path))
    model_check.ModelCheck(file, tmp_path / "model", launcher).finish()
