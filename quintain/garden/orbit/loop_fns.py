"""Path of `orbit.utils` for these functions."""

from quintain.orbit.loop_functions import create_loop_fn as create_loop_fn
from quintain.orbit.loop_functions import create_tf_while_loop_fn as create_tf_while_loop_fn
from quintain.orbit.loop_functions import (
    create_tf_while_loop_fn_with_state as create_tf_while_loop_fn_with_state,
)
from quintain.orbit.optional_summaries import LoopFnWithSummaries as LoopFnWithSummaries
