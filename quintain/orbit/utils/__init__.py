"""Parts for custom training loops, under the names of `orbit.utils`."""

from typing import TYPE_CHECKING

from quintain import lazy_modules

if TYPE_CHECKING:
    from quintain.orbit.distributed_dataset import make_distributed_dataset
    from quintain.orbit.global_step import create_global_step
    from quintain.orbit.loop_functions import (
        create_loop_fn,
        create_tf_while_loop_fn,
        create_tf_while_loop_fn_with_state,
    )
    from quintain.orbit.optional_summaries import LoopFnWithSummaries, OptionalSummariesFunction
    from quintain.orbit.step_timer import StepTimer
    from quintain.orbit.utils.epoch_helper import EpochHelper
    from quintain.orbit.utils.summary_manager import SummaryManager, SummaryManagerInterface
    from quintain.orbit.values import get_value

__all__ = [
    "EpochHelper",
    "LoopFnWithSummaries",
    "OptionalSummariesFunction",
    "StepTimer",
    "SummaryManager",
    "SummaryManagerInterface",
    "create_global_step",
    "create_loop_fn",
    "create_tf_while_loop_fn",
    "create_tf_while_loop_fn_with_state",
    "get_value",
    "make_distributed_dataset",
]

_ELSEWHERE = {
    "LoopFnWithSummaries": "optional_summaries",
    "OptionalSummariesFunction": "optional_summaries",
    "StepTimer": "step_timer",
    "create_global_step": "global_step",
    "create_loop_fn": "loop_functions",
    "create_tf_while_loop_fn": "loop_functions",
    "create_tf_while_loop_fn_with_state": "loop_functions",
    "get_value": "values",
    "make_distributed_dataset": "distributed_dataset",
}
"""Names of `orbit.utils` that modules beside this package define."""

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    ("epoch_helper", "summary_manager"),
    names={
        "epoch_helper": ("EpochHelper",),
        "summary_manager": ("SummaryManager", "SummaryManagerInterface"),
    },
    find_names=lambda: {name: f"quintain.orbit.{module}" for name, module in _ELSEWHERE.items()},
)
