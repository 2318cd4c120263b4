"""`quintain verify`, `diff` and `reproduce` of a run that takes milliseconds."""

import json
import shutil

import pytest

from quintain.run import train_lib
from tests.line_task import line_params, line_task_is_registered

pytestmark = pytest.mark.slow

__all__ = ["line_params", "line_task_is_registered"]


@pytest.fixture
def run(tmp_path, line_params):
    directory = tmp_path / "lauf ü"
    params = line_params({"runtime": {"seed": 3}})
    params.lock()
    train_lib.train_from_config(params, "train", str(directory), experiment="test/line")
    return directory


def test_verify_says_that_all_is_as_written_or_what_is_not(quintain, run):
    code, stdout, _ = quintain("verify", run)
    head = stdout.split()[-1]
    assert (code, stdout) == (
        0,
        f"{run}: 4 checkpoints and 4 receipts are as they were written. Newest receipt: {head}\n",
    )
    assert quintain("verify", run, "--expect", head)[0] == 0
    for other in (head[:12], "", "0" * 64):  # Who can write receipts can make any first letters.
        code, stdout, _ = quintain("verify", run, "--expect", other, "--json")
        assert (code, len(json.loads(stdout)["findings"])) == (1, 1)

    file = run / "ckpt-20.data-00000-of-00001"
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)

    code, stdout, _ = quintain("verify", run)
    assert (code, stdout.splitlines()[0]) == (1, f"{run} is not as it was written:")
    assert file.name in stdout


def test_verify_trains_steps_again(quintain, run):
    code, stdout, stderr = quintain("verify", run, "--from=10", "--to=30")
    assert (code, stdout) == (0, f"{run}, steps 10 to 30: equal to the bit at 20, 30.\n")
    assert "quintain-verify-" not in stderr
    other = "--set=task.dropout_rate=0.2"

    code, stdout, _ = quintain("verify", run, "--from=10", "--to=30", other)

    assert code == 1
    assert "the first difference is at step 20, in " in stdout
    assert "config task.dropout_rate: 0.1 -> 0.2" in stdout
    code, _, stderr = quintain("verify", run, "--from=10")
    assert (code, stderr) == (
        2,
        "Error: --from and --to: give both of them, or neither and no --set.\n",
    )


def test_diff_and_reproduce_compare_runs(quintain, run, tmp_path):
    again = tmp_path / "again"
    receipt = run / "ckpt-30.receipt.json"

    code, stdout, _ = quintain("reproduce", receipt, f"--model-dir={again}")

    assert (code, stdout) == (0, f"{again}: equal to the bit to {receipt}.\n")
    code, stdout, _ = quintain("diff", run, again)
    assert (code, stdout) == (0, f"{run} and {again}: equal to the bit at 10, 20, 30.\n")
    shutil.rmtree(again)
    code, _, stderr = quintain("diff", run, again)
    assert (code, stderr.startswith(f"Error: {again}: there is no receipt here.")) == (2, True)
