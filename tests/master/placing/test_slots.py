import os
import subprocess

import pytest

from quintain import errors
from quintain.master.placing import slots


@pytest.fixture
def machine(monkeypatch):
    """Makes a machine of so many cores and GPUs; `visible` is CUDA_VISIBLE_DEVICES."""

    def make(num_cores, num_gpus=0, visible=None):
        def run(command, **options):
            if not num_gpus:
                raise FileNotFoundError(command[0])
            listed = "".join(f"{index}\n" for index in range(num_gpus))
            return subprocess.CompletedProcess(command, 0, stdout=listed)

        monkeypatch.setattr(slots, "count_cores", lambda: num_cores)
        monkeypatch.setattr(subprocess, "run", run)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    return make


@pytest.mark.parametrize(
    ("num_cores", "num_slots", "num_threads"), [(1, 1, 1), (2, 2, 1), (16, 8, 2)]
)
def test_without_gpus_slots_are_shares_of_the_cpu(machine, num_cores, num_slots, num_threads):
    machine(num_cores)
    found = slots.find_slots()
    assert [slot.id for slot in found] == list(range(num_slots))
    assert {(slot.kind, slot.device, slot.num_threads) for slot in found} == {
        (slots.SlotKind.CPU, "", num_threads)
    }


def test_every_gpu_is_a_slot_with_its_share_of_the_cores(machine):
    machine(12, num_gpus=4)
    found = slots.find_slots()
    assert [(slot.kind, slot.device, slot.num_threads) for slot in found] == [
        (slots.SlotKind.GPU, str(index), 3) for index in range(4)
    ]


def test_more_slots_than_gpus_are_shares_of_the_cpu(machine):
    machine(4, num_gpus=1)
    kinds = [slot.kind for slot in slots.find_slots(2)]
    assert kinds == [slots.SlotKind.GPU, slots.SlotKind.CPU]


@pytest.mark.parametrize(
    ("visible", "devices"), [("2,GPU-5f", ["2", "GPU-5f"]), ("", []), ("-1", [])]
)
def test_the_user_s_choice_of_gpus_is_kept(machine, visible, devices):
    machine(4, num_gpus=8, visible=visible)
    found = [slot.device for slot in slots.find_slots() if slot.kind is slots.SlotKind.GPU]
    assert found == devices


def test_numbers_must_be_positive(machine):
    machine(2)
    with pytest.raises(errors.ConfigError, match="slots: got -1"):
        slots.find_slots(-1)
    with pytest.raises(errors.ConfigError, match="threads_per_slot: got -1"):
        slots.find_slots(1, threads_per_slot=-1)


def test_cores_are_those_that_this_process_may_use():
    assert slots.count_cores() == len(os.sched_getaffinity(0))
