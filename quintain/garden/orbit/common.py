"""Path of `orbit.utils.common` for these functions."""

from quintain.orbit.distributed_dataset import make_distributed_dataset as make_distributed_dataset
from quintain.orbit.global_step import create_global_step as create_global_step
from quintain.orbit.values import get_value as get_value
