"""Sections of an experiment's config."""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal, Self

from annotated_types import Ge, Gt, Le, Lt

from quintain import errors
from quintain.config import base_config
from quintain.records.config import line_pattern

Count = Annotated[int, Ge(0)]
PositiveCount = Annotated[int, Gt(0)]

_CPU_KINDS: Final = ("cpu",)
_GPU_KINDS: Final = ("cuda", "gpu")
_WEBHOOK: Final = re.compile(r"https?://[!-~]+")


@dataclasses.dataclass
class ReproducibilityConfig(base_config.Config):
    """Seeds of a search, which make it repeatable."""

    experiment_seed: Annotated[int, Ge(0), Lt(2**32)] | None = None
    """Seed of the search and of all trials. None takes the time when the experiment is created."""


@dataclasses.dataclass
class ResourcesConfig(base_config.Config):
    """Resources of an experiment."""

    slots_per_trial: Count = 1
    """Slots that a trial holds while it runs; 0 for none."""

    processes_per_trial: PositiveCount | None = None
    """Processes that train a trial together: as many as slots, of which each has one then, wherever
    they are; or 1, which has all slots of one machine. None takes as many as slots for registered
    experiments and `KerasTrial`, and 1 for other kinds of trials."""

    min_slots_per_trial: Annotated[int, Ge(1), Le(2**16)] | None = None
    """Slots with which a trial goes on while there are no more: `slots_per_trial` divided by 1, 2,
    4, ... None takes 1 where `runtime.elastic` is set among the hyperparameters, which it needs."""

    node_labels: dict[str, str] = dataclasses.field(default_factory=dict)
    """Labels that a machine must have for the trials, with their values."""

    gpu: bool | str | None = None
    """`true` for slots that are GPUs, `false` for slots that are none, or the kind of GPU, as the
    machine's label `gpu` names it. None takes any slots."""

    weight: Annotated[float, Gt(0), Le(1e9)] = 1.0
    """Share of the slots, relative to other experiments."""

    max_slots: Count | None = None
    """Most slots that all trials together may hold. None for no limit."""

    priority: Annotated[int, Ge(1), Le(99)] | None = None
    """1 to 99, lower is sooner; 42 if None."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields a limit that no trial fits into, and numbers of processes that there can't be."""
        if self.processes_per_trial not in (None, 1, self.slots_per_trial):
            yield (
                "processes_per_trial",
                f"got {self.processes_per_trial}, expected 1 or slots_per_trial="
                f"{self.slots_per_trial}.",
            )
        least = self.min_slots_per_trial
        ratio, rest = divmod(self.slots_per_trial, least or max(self.slots_per_trial, 1))
        if least and (rest or not ratio or ratio & (ratio - 1)):
            yield (
                "min_slots_per_trial",
                f"got {least}, expected slots_per_trial={self.slots_per_trial} divided by 1, 2, 4, "
                "...",
            )
        elif least and self.processes_per_trial == 1 < self.slots_per_trial:
            yield "min_slots_per_trial", "got it with processes_per_trial=1; leave one of them out."
        if self.max_slots is not None and self.max_slots < self.slots_per_trial:
            yield (
                "max_slots",
                f"got {self.max_slots}, expected at least slots_per_trial={self.slots_per_trial}.",
            )

    @property
    def num_processes(self) -> int:
        """Processes of a trial."""
        return self.processes_per_trial or 1

    @property
    def least(self) -> Self:
        """The resources with which a trial does."""
        return self if self.min_slots_per_trial is None else self.take(self.min_slots_per_trial)

    def take(self, num_slots: int) -> Self:
        """Returns the resources of a trial that starts with so many processes of one slot each."""
        return self.replace(
            slots_per_trial=num_slots, processes_per_trial=num_slots, min_slots_per_trial=None
        )


@dataclasses.dataclass
class OptimizationsConfig(base_config.Config):
    """Gradient aggregation and mixed precision, where the trial asks for them."""

    aggregation_frequency: PositiveCount = 1
    """Batches whose gradients are added up for one update."""

    average_aggregated_gradients: bool = True
    """Whether the sum is divided by the number of batches."""

    average_training_metrics: bool = True
    """Whether training metrics are means over all replicas of a trial."""

    mixed_precision: Literal["O0", "O1", "O2", "O3"] = "O0"
    """`O0` for float32; the others compute in half precision."""


@dataclasses.dataclass
class CodeConfig(base_config.Config):
    """Limits on a model directory, which is copied when the experiment is created."""

    max_files: PositiveCount = 20_000
    """Most files and directories, without what ignore files name."""

    max_mib: PositiveCount = 95
    """Most MiB of all files together."""


@dataclasses.dataclass
class EnvironmentConfig(base_config.Config):
    """Environment variables of trial processes."""

    environment_variables: list[str] | dict[str, list[str]] | None = None
    """Variables to set, `NAME=VALUE` each; or such lists by the kind of slot: that counts on which
    a trial runs, `cpu`, or `cuda` and `gpu`, which mean the same. There is no `rocm`."""

    def as_mapping(self, *, has_gpu: bool) -> dict[str, str]:
        """Returns the values of the variables by their names."""
        kinds = ("", *_GPU_KINDS) if has_gpu else ("", *_CPU_KINDS)
        texts = [text for kind, _, text in self._list_variables() if kind in kinds]
        return dict(text.partition("=")[::2] for text in texts)

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what is no kind of slot, or no `NAME=VALUE`."""
        known = (*_CPU_KINDS, *_GPU_KINDS, "rocm")
        if isinstance(self.environment_variables, Mapping):
            for kind in self.environment_variables:
                if kind not in known:
                    yield (
                        f"environment_variables.{kind}",
                        f"unknown kind of slot, expected one of {', '.join(known)}."
                        f"{errors.suggest(kind, known)}",
                    )
        for _, path, text in self._list_variables():
            if text.find("=") < 1 or "\0" in text:
                yield path, f"got {errors.show(text)}, expected NAME=VALUE without NUL."

    def _list_variables(self) -> Iterator[tuple[str, str, str]]:
        given = self.environment_variables or []
        parts = given if isinstance(given, Mapping) else {"": given}
        for kind, texts in parts.items():
            path = f"environment_variables{'.' if kind else ''}{kind}"
            yield from ((kind, f"{path}[{index}]", text) for index, text in enumerate(texts))


@dataclasses.dataclass
class LogPolicyConfig(base_config.Config):
    """Reaction to a failed trial whose log has matched a pattern."""

    name: str | None = None
    """What a match is called in the reason for which a trial failed; None takes the pattern."""

    pattern: str = ""
    """Regular expression of RE2, searched for in each line that the trial writes."""

    action: Literal["cancel_retries", "exclude_node"] | None = None
    """`cancel_retries`: a trial that failed is not started again. `exclude_node`: it is started
    again, but not on the machine it failed on; if that is the only one, not on the slots it failed
    on; where there are no others, it is not. None only names the match."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields a pattern that is missing, or that `LinePattern` refuses."""
        if not self.pattern:
            yield "pattern", "missing, expected a regular expression."
        try:
            line_pattern.get(self.pattern)
        except errors.ConfigError as error:
            yield "pattern", str(error)


@dataclasses.dataclass
class ProfilingConfig(base_config.Config):
    """Batches of a trial that are profiled."""

    enabled: bool = False
    """Whether trials write profiles, for TensorBoard."""

    begin_on_batch: Count = 0
    """Batches before the profile begins."""

    end_after_batch: Count | None = None
    """Batches after which it ends. None takes `begin_on_batch` and ten more."""

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
    """Command or webhook that is called when the experiment ends."""

    on: list[Literal["completed", "error", "canceled"]] = dataclasses.field(
        default_factory=lambda: ["completed", "error", "canceled"]
    )
    """How it has to end."""

    command: str | None = None
    """Command for `sh`. It is given what happened as JSON on its standard input, and as variables
    such as `QUINTAIN_EXPERIMENT_STATE`; of the master's variables it gets few, and no secrets."""

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
