"""Options of a run besides its task and its config."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from quintain import orbit
from quintain.core.loop import stateful_trainer
from quintain.orbit.utils import summary_manager as summary_manager_lib

if TYPE_CHECKING:
    from quintain.checkpoints import memory_checkpoints
    from quintain.run.events import step_profile


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of a run. All of its drivers take these and pass them on as one."""

    run_post_eval: bool = False
    """Whether to evaluate once more at the end."""

    save_summary: bool = True
    """Whether to write TensorBoard summaries."""

    train_actions: Sequence[orbit.Action] | None = None
    """Called with the output of each training loop, after the config's own."""

    eval_actions: Sequence[orbit.Action] | None = None
    """Called with the output of each evaluation, after the config's own."""

    trainer: stateful_trainer.StatefulTrainer | None = None
    """A trainer to use instead of the one that the config describes."""

    controller_cls: Callable[..., orbit.Controller] = orbit.Controller
    """Class or function that builds the controller."""

    summary_manager: summary_manager_lib.SummaryManagerInterface | None = None
    """Writes training summaries elsewhere than to files."""

    eval_summary_manager: summary_manager_lib.SummaryManagerInterface | None = None
    """Writes evaluation summaries elsewhere than to files."""

    enable_async_checkpointing: bool = True
    """Whether checkpoints are written in the background."""

    reporter: orbit.Reporter | None = None
    """Told what happens; writes to the log if None."""

    interruption: orbit.Interruption | None = None
    """Stops the run between two steps, with a checkpoint."""

    on_start: Callable[[], None] | None = None
    """Called once, on the chief, when the settings of a training are written."""

    stand_by: Callable[[], None] | None = None
    """Called once model and training loop are built and compiled; the run waits for its end, and
    goes on with the newest checkpoint that there is then."""

    memory: "memory_checkpoints.SharedMemory | None" = None
    """Memory that a standby shares, in which the state is kept besides the checkpoints."""

    profile: "step_profile.StepRange | None" = None
    """Steps to profile, into the model directory."""


DEFAULTS: Final = RunOptions()
"""Those of a run that is given none."""
