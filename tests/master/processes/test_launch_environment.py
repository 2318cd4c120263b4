import contextlib
import subprocess

import pytest

from quintain import errors
from quintain.master.placing import slots
from quintain.master.processes import launch_environment, starters, supervisor
from quintain.records.config import experiment_sections


def test_slots_without_a_number_of_threads_leave_it_to_tensorflow():
    own = [slots.Slot(0, num_threads=2), slots.Slot(1)]
    assert launch_environment.from_slots(own) == {
        "QUINTAIN_SLOTS": "0,1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "-1",
    }


def test_threads_and_devices_add_up():
    own = [slots.Slot(number, slots.SlotKind.GPU, str(number), 2) for number in (1, 3)]
    found = launch_environment.from_slots(own)
    assert found["CUDA_VISIBLE_DEVICES"] == "1,3"
    assert {found[name] for name in found if "THREADS" in name} == {"4"}


def test_no_slots_are_no_gpu():
    assert launch_environment.from_slots([])["CUDA_VISIBLE_DEVICES"] == "-1"


@pytest.mark.parametrize(
    "name",
    [
        "TF_USE_LEGACY_KERAS",
        "KERAS_BACKEND",
        "PYTHONHASHSEED",
        "TF_NUM_INTRAOP_THREADS",
        "TZ",
        "TMPDIR",
        "LC_ALL",
        "ANYTHING",
    ],
)
def test_what_may_be_read_once_is_early_unless_it_is_set_so_already(name, monkeypatch):
    monkeypatch.delenv(name, raising=False)
    assert launch_environment.find_early({name: "1", "QUINTAIN_RANK": "1"}) == {name: "1"}
    monkeypatch.setenv(name, "1")
    assert launch_environment.find_early({name: "1"}) == {}
    assert launch_environment.find_early({name: "2"}) == {name: "2"}


def test_what_is_read_anew_is_not_early():
    assert launch_environment.find_early({"TF_NUM_INTEROP_THREADS": "3", "TF_CONFIG": "{}"}) == {}


def test_variables_of_an_experiment_are_those_of_the_kind_of_slots_here(monkeypatch):
    config = experiment_sections.EnvironmentConfig()
    config.environment_variables = {"cpu": ["A=1"], "gpu": ["A=2"]}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert launch_environment.of_experiment(config) == {"A": "1"}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert launch_environment.of_experiment(config) == {"A": "2"}


@pytest.mark.parametrize(
    "build", [starters.SpawnStarter, lambda: starters.ForkStarter((), {"TF_X": "1"})]
)
def test_processes_of_a_command_do_not_get_its_database(build, monkeypatch, tmp_path):
    monkeypatch.setenv("QUINTAIN_HOME", str(tmp_path))
    monkeypatch.setenv("QUINTAIN_DATABASE", "postgresql://me:secret@db.example/trials")
    monkeypatch.setenv("PGPASSWORD", "secret")
    monkeypatch.setenv("KEPT", "1")
    started, start = [], subprocess.Popen

    def note(command, *, env, **others):
        started.append(env)
        return start(["true"], env=env, **others)

    monkeypatch.setattr(starters.subprocess, "Popen", note)
    with contextlib.closing(build()) as starter, pytest.raises((errors.ClusterError, OSError)):
        starter.start(supervisor.StartRequest("t1", str(tmp_path), {}, "a:b", ("true",)))

    assert started[0]["KEPT"] == "1"
    assert not {"QUINTAIN_DATABASE", "PGPASSWORD"} & started[0].keys()
