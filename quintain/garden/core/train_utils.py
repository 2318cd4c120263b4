"""Names of the Model Garden's `train_utils`, each of which has a module of its own here."""

from quintain.checkpoints.best_checkpoint import (
    BEST_CHECKPOINT_NAME,  # noqa: F401
    BestCheckpointExporter,  # noqa: F401
    maybe_create_best_ckpt_exporter,  # noqa: F401
)
from quintain.checkpoints.checkpoints import read_global_step_from_checkpoint, remove_ckpts  # noqa: F401
from quintain.core.trainer_factory import create_optimizer as create_optimizer
from quintain.core.trainer_factory import create_trainer as create_trainer
from quintain.garden.core.nested_logs import (
    cast_leaf_nested_dict,  # noqa: F401
    get_leaf_nested_dict,  # noqa: F401
    write_json_summary,  # noqa: F401
    write_summary,  # noqa: F401
)
from quintain.run.experiment_parser import ExperimentParser, ParseConfigOptions, parse_configuration  # noqa: F401
from quintain.run.model_stats import try_count_flops, try_count_params, write_model_params  # noqa: F401
from quintain.run.run_files import save_gin_config, serialize_config  # noqa: F401
