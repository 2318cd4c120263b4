"""The flags of programs whose parameters are a `ParamsDict`."""

from typing import Any

from absl import flags

from quintain.garden.utils.flags import core

FLAGS = flags.FLAGS


def define_gin_flags() -> None:
    """Defines `gin_file` and `gin_param`."""
    flags.DEFINE_multi_string("gin_file", None, "gin files.")
    flags.DEFINE_multi_string("gin_param", None, "gin bindings.")


def define_common_hparams_flags() -> None:
    """Defines what `hparam_flags_dict` reads, but `data_dir`, and `save_checkpoint_freq`."""
    flags.DEFINE_string("model_dir", None, "Directory of the run.")
    flags.DEFINE_integer("train_batch_size", None, "Examples of a training step.")
    flags.DEFINE_integer("eval_batch_size", None, "Examples of an evaluation step.")
    flags.DEFINE_string("precision", None, "What the model computes in: bfloat16 or float32.")
    flags.DEFINE_string("config_file", None, "YAML file that overrides the defaults.")
    flags.DEFINE_string("params_override", None, "Overrides after it: YAML, a file, or `a.b=1`.")
    flags.DEFINE_integer("save_checkpoint_freq", None, "Steps between two checkpoints.")


def initialize_common_flags() -> None:
    """Defines all flags that the functions below read, but `data_dir`."""
    define_common_hparams_flags()
    core.define_device(tpu=True)
    core.define_base(num_gpu=True, model_dir=False, data_dir=False, batch_size=False)
    core.define_distribution(worker_hosts=True, task_index=True)
    core.define_performance(all_reduce_alg=True, num_packs=True)
    FLAGS.set_default("num_gpus", 0)
    flags.DEFINE_string("strategy_type", "mirrored", "Strategy to train under.")


def strategy_flags_dict() -> dict[str, Any]:
    """Returns the flags that describe the strategy."""
    names = ("tpu", "all_reduce_alg", "worker_hosts", "task_index", "num_gpus", "num_packs")
    return {"distribution_strategy": FLAGS.strategy_type} | {
        name: FLAGS[name].value for name in names
    }


def hparam_flags_dict() -> dict[str, Any]:
    """Returns the flags that describe the training."""
    names = (
        "data_dir",
        "model_dir",
        "train_batch_size",
        "eval_batch_size",
        "precision",
        "config_file",
        "params_override",
    )
    return {name: FLAGS[name].value for name in names}
