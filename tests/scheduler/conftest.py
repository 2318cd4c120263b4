"""Launchers of processes that are quick to start."""

import pathlib
import time

import pytest

import quintain
from quintain.scheduler import launcher as launcher_lib
from quintain.scheduler import process_launcher, slots


class Harness:
    """Starts tiny processes and collects what becomes of them."""

    def __init__(self, scratch_dir):
        self.scratch_dir = scratch_dir
        self.launchers = []
        self.identities = {}

    def make(self, **options):
        self.launchers.append(
            process_launcher.ProcessLauncher(
                **{
                    "worker": "tiny_worker",
                    "preloaded": ("colorsys",),
                    "grace_secs": 0.5,
                    **options,
                }
            )
        )
        return self.launchers[-1]

    def start(self, launcher, what, *, launch_id="7-1", variables=None, own_slots=None):
        identity = launcher.start(
            launcher_lib.Launch(
                launch_id,
                trial_id=7,
                experiment_id=1,
                slots=(slots.Slot(0, num_threads=1),) if own_slots is None else own_slots,
                environment={"TINY": what, **(variables or {})},
                scratch_dir=str(self.scratch_dir),
            )
        )
        self.identities[launch_id] = identity
        return identity

    def wait_for_exit(self, launcher, count=1):
        exits = []
        deadline = time.monotonic() + 20.0
        while len(exits) < count and time.monotonic() < deadline:
            exits += launcher.poll()
            time.sleep(0.01)
        assert len(exits) == count
        return exits[0] if count == 1 else {found.launch_id: found for found in exits}

    def wait_for_line(self, launcher, text, rows=None):
        rows = [] if rows is None else rows
        deadline = time.monotonic() + 20.0
        while not any(text in row.text for row in rows):
            assert time.monotonic() < deadline, rows
            rows += launcher.read_logs()
            time.sleep(0.01)
        return rows


@pytest.fixture
def harness(tmp_path, monkeypatch):
    """Returns a harness whose processes find `tiny_worker`."""
    here = str(pathlib.Path(__file__).parent)
    root = str(pathlib.Path(quintain.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", f"{here}:{root}")
    made = Harness(tmp_path / "scratch")
    yield made
    for launcher in made.launchers:
        launcher.close(kill=True)


@pytest.fixture(params=["fork", "spawn"])
def launcher(harness, request):
    """Returns a launcher that starts processes in each of the two ways."""
    return harness.make(start_method=process_launcher.StartMethod(request.param))
