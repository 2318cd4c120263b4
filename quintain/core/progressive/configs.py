"""Configs of progressive training."""

import dataclasses
from collections.abc import Iterator

from typing_extensions import override

from quintain.config import base_config
from quintain.optimization.configs import ranges
from quintain.settings import config_definitions as cfg


@dataclasses.dataclass
class StageConfig(base_config.Config):
    """One stage of progressive training: what differs in it from the experiment."""

    num_steps: ranges.Period | None = None
    """Steps of the stage. Only the last stage has none: it lasts until `trainer.train_steps`."""

    task: base_config.Config = dataclasses.field(default_factory=base_config.Config)
    """Fields of the task that have other values in this stage, such as those of a smaller model."""

    optimizer_config: base_config.Config = dataclasses.field(default_factory=base_config.Config)
    """Fields of `trainer.optimizer_config` that have other values in this stage."""

    continues_schedule: bool = True
    """Whether the learning rate goes on as if there had been no stages before. Otherwise its
    schedule, with any warm-up, starts anew with the stage."""


@dataclasses.dataclass
class ProgressiveConfig(base_config.Config):
    """The stages; a base for configs of policies of your own, too."""

    stages: tuple[StageConfig, ...] = ()
    """The stages in their order, for tasks that are not policies themselves."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the stages without a length."""
        for index, stage in enumerate(self.stages):
            is_last = index == len(self.stages) - 1
            if stage.num_steps is None and not is_last:
                yield (
                    f"stages[{index}].num_steps",
                    "got None, expected a number: only the last stage may do without.",
                )
            if stage.num_steps is not None and is_last:
                yield (
                    f"stages[{index}].num_steps",
                    f"got {stage.num_steps}, expected None: the last stage lasts until "
                    "trainer.train_steps.",
                )


@dataclasses.dataclass
class ProgressiveTrainerConfig(cfg.TrainerConfig):
    """Training in stages."""

    progressive: ProgressiveConfig | None = None
    """The stages. None leaves them to a task that is a `ProgressivePolicy` itself."""

    export_checkpoint: bool = True
    """Whether checkpoints for other programs, with nothing but step, model and optimizer, are
    written to `exported_ckpts` in the model directory."""

    export_checkpoint_interval: ranges.Period | None = None
    """Steps between exported checkpoints. None takes `checkpoint_interval`."""

    export_max_to_keep: ranges.Period | None = None
    """Newest exported checkpoints to keep. None takes `max_to_keep`."""

    export_only_final_stage_ckpt: bool = True
    """Whether only models of the last stage are exported, not the small ones before."""

    @override
    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the fields whose values do not fit together."""
        yield from super().check()
        has_steps = self.export_checkpoint_interval or self.checkpoint_interval != "auto"
        if self.export_checkpoint and not has_steps:
            message = "missing; expected a number of steps with checkpoint_interval='auto'."
            yield "export_checkpoint_interval", message
