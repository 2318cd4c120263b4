"""Sections of an experiment's config."""

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from annotated_types import Ge, Gt, Le, Lt

from quintain import errors
from quintain.config import base_config

Count = Annotated[int, Ge(0)]
PositiveCount = Annotated[int, Gt(0)]

_WEBHOOK: Final = re.compile(r"https?://[!-~]+")


@dataclasses.dataclass
class CheckpointStorageConfig(base_config.Config):
    """Where checkpoints are kept, and which of them."""

    type: Literal["shared_fs", "directory"] = "shared_fs"
    """Kind of storage: both are directories of this machine."""

    host_path: str | None = None
    """Directory of the checkpoints. None takes the one in the home directory of the platform."""

    storage_path: str | None = None
    """Directory below `host_path`."""

    container_path: str | None = None
    """The directory, with `type: directory`."""

    propagation: str = "rprivate"
    """Kept for old configs; there are no containers here."""

    save_experiment_best: Count = 0
    """Best checkpoints of the whole experiment to keep at its end."""

    save_trial_best: Count = 1
    """Best checkpoints of each trial to keep at the end of the experiment."""

    save_trial_latest: Count = 1
    """Newest checkpoints of each trial to keep at the end of the experiment."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields paths that are not allowed."""
        for name in ("host_path", "container_path"):
            path = getattr(self, name)
            if path is not None and not os.path.isabs(path):
                yield name, f"got {errors.show(path)}, expected an absolute path."
        root = os.path.normpath(self._root or "/default")
        inside = os.path.normpath(self.directory("/default"))
        if inside != root and not inside.startswith(root.rstrip("/") + "/"):
            yield (
                "storage_path",
                f"got {errors.show(self.storage_path)}, expected a path below "
                f"{self._root or 'the home directory of the platform'}.",
            )

    def directory(self, default: str) -> str:
        """Returns the directory of the checkpoints.

        Args:
            default: The directory if none is set.
        """
        root = self._root or default
        return os.path.join(root, self.storage_path) if self.storage_path else root

    @property
    def _root(self) -> str | None:
        return self.container_path if self.type == "directory" else self.host_path


@dataclasses.dataclass
class ReproducibilityConfig(base_config.Config):
    """What makes a search repeatable."""

    experiment_seed: Annotated[int, Ge(0), Lt(2**32)] | None = None
    """Seed of the search and of all trials. None takes the time when the experiment is created."""


@dataclasses.dataclass
class ResourcesConfig(base_config.Config):
    """What the experiment may use."""

    slots_per_trial: Count = 1
    """Slots that a trial holds while it runs; 0 for none."""

    weight: Annotated[float, Gt(0), Le(1e9)] = 1.0
    """Share of the slots, relative to other experiments."""

    max_slots: Count | None = None
    """Most slots that all trials together may hold. None for no limit."""

    priority: Annotated[int, Ge(1), Le(99)] | None = None
    """1 to 99, lower is sooner; 42 if None."""

    shm_size: int | str | None = None
    """Kept for old configs; there are no containers here."""

    agent_label: str = ""
    """Kept for old configs; there is one machine."""

    resource_pool: str = ""
    """Kept for old configs; there is one machine."""

    native_parallel: bool = False
    """Whether one process uses all slots of a trial."""

    devices: list[Any] = dataclasses.field(default_factory=list)
    """Kept for old configs; there are no containers here."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields a limit that no trial fits into."""
        if self.max_slots is not None and self.max_slots < self.slots_per_trial:
            yield (
                "max_slots",
                f"got {self.max_slots}, expected at least slots_per_trial={self.slots_per_trial}.",
            )


@dataclasses.dataclass
class OptimizationsConfig(base_config.Config):
    """How gradients are computed, where the trial asks for it."""

    aggregation_frequency: PositiveCount = 1
    """Batches whose gradients are added up for one update."""

    average_aggregated_gradients: bool = True
    """Whether the sum is divided by the number of batches."""

    average_training_metrics: bool = True
    """Whether training metrics are means over all replicas of a trial."""

    gradient_compression: bool = False
    """Whether gradients travel in half precision."""

    mixed_precision: Literal["O0", "O1", "O2", "O3"] = "O0"
    """`O0` for float32; the others compute in half precision."""

    tensor_fusion_threshold: Count = 64
    """Kept for old configs."""

    tensor_fusion_cycle_time: Count = 5
    """Kept for old configs."""

    auto_tune_tensor_fusion: bool = False
    """Kept for old configs."""

    grad_updates_size_file: str | None = None
    """Kept for old configs."""


@dataclasses.dataclass
class CodeConfig(base_config.Config):
    """How much a model directory may be; it is copied when the experiment is created."""

    max_files: PositiveCount = 20_000
    """Most files and directories, without what ignore files name."""

    max_mib: PositiveCount = 95
    """Most MiB of all files together."""


@dataclasses.dataclass
class EnvironmentConfig(base_config.Config):
    """The processes of trials."""

    environment_variables: list[str] | dict[str, list[str]] | None = None
    """Variables to set, `NAME=VALUE` each; a mapping has such lists for kinds of machines, which
    all count."""

    def as_mapping(self) -> dict[str, str]:
        """Returns the values of the variables by their names."""
        return dict(text.partition("=")[::2] for _, text in self._list_variables())

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what is no `NAME=VALUE`."""
        for path, text in self._list_variables():
            if text.find("=") < 1:
                yield path, f"got {errors.show(text)}, expected NAME=VALUE."

    def _list_variables(self) -> Iterator[tuple[str, str]]:
        given = self.environment_variables or []
        parts = given if isinstance(given, Mapping) else {"": given}
        for name, texts in parts.items():
            path = f"environment_variables{'.' if name else ''}{name}"
            yield from ((f"{path}[{index}]", text) for index, text in enumerate(texts))


@dataclasses.dataclass
class ProfilingConfig(base_config.Config):
    """Kept for old configs; trials write no profiles by themselves."""

    enabled: bool = False
    """Whether trials were profiled."""

    begin_on_batch: Count = 0
    """First batch of the profile."""

    end_after_batch: Count | None = None
    """Last batch of the profile."""

    sync_timings: bool = True
    """Whether measurements waited for the device."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields a profile that ends before it begins."""
        if self.end_after_batch is not None and self.end_after_batch < self.begin_on_batch:
            yield (
                "end_after_batch",
                f"got {self.end_after_batch}, expected at least "
                f"begin_on_batch={self.begin_on_batch}.",
            )


@dataclasses.dataclass
class AlertConfig(base_config.Config):
    """A command that is run, or an address that is told, when the experiment ends."""

    on: list[Literal["completed", "error", "canceled"]] = dataclasses.field(
        default_factory=lambda: ["completed", "error", "canceled"]
    )
    """How it has to end."""

    command: str | None = None
    """Command for `sh`. It is given what happened as JSON on its standard input, and as variables
    such as `QUINTAIN_EXPERIMENT_STATE`."""

    webhook: str | None = None
    """Address (`https://...`) that is sent the same JSON by POST."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what can't be done."""
        if (self.command is None) == (self.webhook is None):
            got = "none" if self.command is None else "both"
            yield "command", f"got {got} of command and webhook, expected one of them."
        if self.command is not None and (not self.command.strip() or "\0" in self.command):
            yield "command", f"got {errors.show(self.command)}, expected a command for sh."
        if self.webhook is not None and not _WEBHOOK.fullmatch(self.webhook):
            yield (
                "webhook",
                f"got {errors.show(self.webhook)}, expected an address such as "
                "https://example.org/hook.",
            )
        if not self.on:
            yield "on", "got [], expected some of completed, error and canceled."
