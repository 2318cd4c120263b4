import dataclasses

import pytest

from quintain.master.placing import slots
from quintain.master.processes import process_usage, usage_meter
from quintain.master.workers import usage_sampling
from quintain.records import process_identity
from quintain.records.rows import launch, metric

GPU_SLOTS = [slots.Slot(0, slots.SlotKind.GPU, "0"), slots.Slot(1, slots.SlotKind.GPU, "1")]
GPUS = {
    "0": process_usage.GpuUsage(80.0, 1000),
    "1": process_usage.GpuUsage(None, 500),
    "2": process_usage.GpuUsage(99.0, 9999),
}


class FakeMachine:
    """Tells what processes use, at a time that a test sets."""

    def __init__(self):
        self.secs = 100.0
        self.cpu_secs = 3.0
        self.age_secs = 2.0
        self.num_looks = 0

    def clock(self):
        return self.secs

    def read(self, leaders):
        self.num_looks += 1
        usage = process_usage.Usage(self.cpu_secs, 4096, self.age_secs)
        return dict.fromkeys(leaders, usage)


@pytest.fixture
def machine(monkeypatch):
    monkeypatch.setattr(process_identity, "is_alive", lambda identity: True)
    return FakeMachine()


@pytest.fixture
def master(make_master, config_text):
    """Returns a master of whose two slots the only trial holds both."""
    made = make_master()
    searcher = {"name": "single", "max_length": 10}
    text = config_text(searcher, resources={"slots_per_trial": 2})
    made.commands.create_experiment(text, None)
    made.tick()
    return made


@pytest.fixture
def make_sampler(master, machine):
    def make(own_slots=(), remote=()):
        master._shared.nodes.slots.update({slot.id: slot for slot in own_slots})
        meter = usage_meter.UsageMeter(
            read=machine.read, read_gpus=lambda: GPUS, clock=machine.clock
        )
        return usage_sampling.UsageSampler(
            master._shared, read_remote=lambda: dict(remote), meter=meter
        )

    return make


@pytest.fixture
def list_samples(store):
    def read():
        with store.reading() as session:
            assert session.list_metrics(1) == []
            return [row.metrics for row in session.list_metrics(1, group=metric.MetricGroup.SYSTEM)]

    return read


def test_a_process_is_measured_since_its_start_and_then_since_the_last_look(
    machine, make_sampler, list_samples
):
    sampler = make_sampler()

    sampler.sample()
    assert list_samples() == [{"cpu_percent": 150.0, "memory_bytes": 4096}]
    machine.secs += usage_meter.SAMPLE_SECS - 1
    sampler.sample()
    assert machine.num_looks == 1
    machine.secs, machine.cpu_secs = machine.secs + 1, 8.0
    sampler.sample()
    assert list_samples()[1] == {"cpu_percent": 50.0, "memory_bytes": 4096}


def test_gpus_are_those_that_the_trial_holds(make_sampler, list_samples):
    make_sampler(GPU_SLOTS).sample()

    (shown,) = list_samples()
    assert (shown["gpu_percent"], shown["gpu_memory_bytes"]) == (80.0, 1500)


def test_samples_survive_a_roll_back(master, store, make_sampler, list_samples):
    make_sampler().sample()
    with store.transaction() as session:
        session.delete_metrics_after(1, -1)

    assert len(list_samples()) == 1


def test_what_ended_while_it_was_measured_is_left_out(master, machine, make_sampler, list_samples):
    sampler = make_sampler()
    measure = machine.read

    def read(leaders):
        master._shared.launches_by_trial.clear()
        return measure(leaders)

    sampler._meter._read = read
    sampler.sample()
    assert list_samples() == []


def test_what_other_machines_tell_is_noted_once(master, make_sampler, list_samples):
    (live,) = master._shared.launches_by_trial.values()
    live.record = dataclasses.replace(
        live.record,
        node="one",
        slots=(0, 1),
        others=(launch.Member("two", (1,)),),
    )
    name = live.record.launch_id
    told = {name: {"cpu_percent": 50.0, "gpu_percent": 10.0}}
    sampler = make_sampler(remote=told)

    sampler.sample()
    told |= {f"{name}.r1": {"cpu_percent": 25.0, "gpu_percent": 20.0}, "t9-x": {"cpu_percent": 1.0}}
    make_sampler(remote={f"{name}.r1": told[f"{name}.r1"]}).sample()
    make_sampler(remote=told).sample()
    assert list_samples() == [
        {"cpu_percent": 50.0, "gpu_percent": 10.0},
        {"cpu_percent": 75.0, "gpu_percent": 15.0},
    ]
