"""Environment variables of trial processes, from slots and from the experiment."""

import os
from collections.abc import Mapping, Sequence
from typing import Final

from quintain.client.home import home as home_lib
from quintain.client.home import home_database
from quintain.master.placing import slots as slots_lib
from quintain.records.config import experiment_sections

_LATE_NAMES: Final = frozenset(
    {"TF_NUM_INTEROP_THREADS", "TF_CONFIG", "CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES"}
)
"""Variables that are known to be read no earlier than a trial computes."""

NO_DEVICE: Final = "-1"
"""Value of `CUDA_VISIBLE_DEVICES` that hides all GPUs."""


def of_children() -> dict[str, str]:
    """Returns the variables of this process that those get which it starts: users' code.

    A command that becomes a master begins with its processes before it has opened its database.
    """
    environment = dict(os.environ)
    home_database.hide(environment, home_lib.find_home().path)
    return environment


def of_experiment(config: experiment_sections.EnvironmentConfig) -> dict[str, str]:
    """Returns the variables that an experiment sets for what runs on this machine's slots."""
    has_kinds = isinstance(config.environment_variables, Mapping)
    has_gpu = has_kinds and any(
        slot.kind is slots_lib.SlotKind.GPU for slot in slots_lib.find_slots()
    )
    return config.as_mapping(has_gpu=has_gpu)


def from_slots(slots: Sequence[slots_lib.Slot]) -> dict[str, str]:
    """Returns the variables that keep a process within its slots.

    They are read when a process computes for the first time, so that they can be set after
    TensorFlow was imported. Where it has computed before the process was copied, the worker tells
    TensorFlow its threads beside.

    Args:
        slots: What the process may use. Without any, it gets CPU threads as it likes, but no GPU.

    Example:
        >>> from_slots([slots_lib.Slot(3, num_threads=2)])["TF_NUM_INTRAOP_THREADS"]
        '2'
    """
    devices = [slot.device for slot in slots if slot.kind is slots_lib.SlotKind.GPU]
    variables = {
        "QUINTAIN_SLOTS": ",".join(str(slot.id) for slot in slots),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(devices) or NO_DEVICE,
    }
    counts = [slot.num_threads for slot in slots if slot.num_threads is not None]
    if counts and len(counts) == len(slots):
        for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS"):
            variables[name] = str(sum(counts))
    return variables


def find_early(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that must be set before an interpreter starts.

    Any variable may be: Python, the C library and what is imported read some at their start, and
    keep them (`TZ`, `TMPDIR`, `PYTHONPATH`, `LD_PRELOAD`, `TF_XLA_FLAGS`). There is no list of all.

    Args:
        environment: Variables to add to those of this process; equal ones are left out, as are
            those that name a trial, or its part of a job.

    Example:
        >>> find_early({"TZ": "UTC0", "QUINTAIN_TRIAL_ID": "7", "TF_CONFIG": "{}"})
        {'TZ': 'UTC0'}
    """
    return {
        name: value
        for name, value in sorted(environment.items())
        if not name.startswith("QUINTAIN_")
        and name not in _LATE_NAMES
        and os.environ.get(name) != value
    }
