"""The names that the reference keeps in `train_utils`. Each has a module of its own here."""

from quintain.core.experiment_parser import ExperimentParser as ExperimentParser
from quintain.core.experiment_parser import ParseConfigOptions as ParseConfigOptions
from quintain.core.experiment_parser import parse_configuration as parse_configuration
from quintain.core.reports.model_stats import try_count_flops as try_count_flops
from quintain.core.reports.model_stats import try_count_params as try_count_params
from quintain.core.reports.model_stats import write_model_params as write_model_params
from quintain.core.reports.nested_logs import cast_leaf_nested_dict as cast_leaf_nested_dict
from quintain.core.reports.nested_logs import get_leaf_nested_dict as get_leaf_nested_dict
from quintain.core.reports.nested_logs import write_json_summary as write_json_summary
from quintain.core.reports.nested_logs import write_summary as write_summary
from quintain.core.saving.best_checkpoint import BEST_CHECKPOINT_NAME as BEST_CHECKPOINT_NAME
from quintain.core.saving.best_checkpoint import BestCheckpointExporter as BestCheckpointExporter
from quintain.core.saving.best_checkpoint import (
    maybe_create_best_ckpt_exporter as maybe_create_best_ckpt_exporter,
)
from quintain.core.saving.checkpoint_files import (
    read_global_step_from_checkpoint as read_global_step_from_checkpoint,
)
from quintain.core.saving.checkpoint_files import remove_ckpts as remove_ckpts
from quintain.core.saving.run_files import save_gin_config as save_gin_config
from quintain.core.saving.run_files import serialize_config as serialize_config
from quintain.core.trainer_factory import create_optimizer as create_optimizer
from quintain.core.trainer_factory import create_trainer as create_trainer
