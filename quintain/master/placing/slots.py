"""Detection of this machine's slots."""

import os
import subprocess
from collections.abc import Sequence
from typing import Final

from quintain import errors
from quintain.records.rows.slot import Slot, SlotKind

__all__ = ["Slot", "SlotKind", "count_cores", "find_slots"]

_FEW_CORES: Final = 4


def find_slots(
    num: int | None = None,
    threads_per_slot: int | None = None,
    *,
    num_cores: int | None = None,
    devices: Sequence[str] | None = None,
) -> list[Slot]:
    """Returns the slots of this machine: one for each GPU, or shares of the CPU if there are none.

    Args:
        num: Slots to make, which may be none. None makes one for each GPU; without GPUs, one for
            each two CPU cores, but for each core where there are at most four.
        threads_per_slot: CPU threads of a slot. None shares out all cores.
        num_cores: CPU cores to share out; None for those that this process may use.
        devices: Numbers or UUIDs of the GPUs; None for those that this process may use.

    Raises:
        ConfigError: If a number is too small.

    Example:
        >>> [slot.num_threads for slot in find_slots(2, threads_per_slot=3)]
        [3, 3]
    """
    for name, value, least in (("slots", num, 0), ("threads_per_slot", threads_per_slot, 1)):
        if value is not None and value < least:
            raise errors.ConfigError(f"{name}: got {value}, expected a whole number >= {least}.")
    if num == 0:
        return []
    devices = _find_gpus() if devices is None else devices
    num_cores = num_cores or count_cores()
    if num is None:
        num = len(devices) or (num_cores if num_cores <= _FEW_CORES else num_cores // 2)
    threads = threads_per_slot or max(num_cores // num, 1)
    return [
        Slot(index, SlotKind.GPU, devices[index], threads)
        if index < len(devices)
        else Slot(index, num_threads=threads)
        for index in range(num)
    ]


def count_cores() -> int:
    """Returns how many CPU cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _find_gpus() -> list[str]:
    """Returns the numbers or UUIDs of the GPUs that this process may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name.strip() for name in visible.split(",") if name.strip() not in ("", "-1")]
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return listed.stdout.split()
