import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parent / "kill_and_resume.py"


@pytest.mark.slow
@pytest.mark.e2e
def test_a_run_killed_at_random_moments_ends_the_same_to_the_bit(tmp_path):
    result = subprocess.run(
        [sys.executable, str(SCRIPT), "--kills=20", f"--workdir={tmp_path}"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 0, result.stdout + result.stderr
    assert "20 kills, and the run ended with the same weights and metrics" in result.stdout
