import pathlib
import subprocess
import sys

import pytest

from quintain.kernels import library

SCRIPT = pathlib.Path(__file__).parent / "kill_and_resume.py"


@pytest.mark.slow
@pytest.mark.e2e
def test_a_run_killed_at_random_moments_ends_the_same_to_the_bit(tmp_path, is_long):
    kills, flags = (20, []) if is_long else (1, ["--train_steps=200"])
    has_kernels = library.find_reason() is None
    if has_kernels:
        flags = [*flags, "--kernels=native"]

    result = subprocess.run(
        # The kills of this seed are of all kinds; the first is a SIGKILL while it trains.
        [sys.executable, SCRIPT, "--seed=222", f"--kills={kills}", *flags, f"--workdir={tmp_path}"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{kills} kills, and the run ended with the same weights and metrics" in result.stdout
    assert has_kernels == ("without a compiler it ended with the same loss" in result.stdout)
    for kind in ("SIGKILL, newest", "SIGTERM", "while starting")[: 3 if is_long else 1]:
        assert kind in result.stdout
