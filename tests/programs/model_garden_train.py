"""The program that projects of the Model Garden train by, as their authors write it."""

import gin
from absl import app, flags

from quintain.common import distribute_utils
from quintain.common import flags as tfm_flags
from quintain.core import task_factory, train_lib, train_utils
from quintain.modeling import performance
from quintain.nlp import continuous_finetune_lib

FLAGS = flags.FLAGS
flags.DEFINE_integer("pretrain_steps", default=None, help="steps")


def main(_):
    gin.parse_config_files_and_bindings(FLAGS.gin_file, FLAGS.gin_params)
    params = train_utils.parse_configuration(FLAGS)
    model_dir = FLAGS.model_dir
    if "train" in FLAGS.mode:
        train_utils.serialize_config(params, model_dir)
    if FLAGS.mode == "continuous_train_and_eval":
        continuous_finetune_lib.run_continuous_finetune(
            FLAGS.mode, params, model_dir, pretrain_steps=FLAGS.pretrain_steps
        )
    else:
        if params.runtime.mixed_precision_dtype:
            performance.set_mixed_precision_policy(params.runtime.mixed_precision_dtype)
        distribution_strategy = distribute_utils.get_distribution_strategy(
            distribution_strategy=params.runtime.distribution_strategy,
            all_reduce_alg=params.runtime.all_reduce_alg,
            num_gpus=params.runtime.num_gpus,
            tpu_address=params.runtime.tpu,
            **params.runtime.model_parallelism(),
        )
        with distribution_strategy.scope():
            task = task_factory.get_task(params.task, logging_dir=model_dir)
        print(
            train_lib.run_experiment(
                distribution_strategy=distribution_strategy,
                task=task,
                mode=FLAGS.mode,
                params=params,
                model_dir=model_dir,
            )[1]
        )
    train_utils.save_gin_config(FLAGS.mode, model_dir)


if __name__ == "__main__":
    tfm_flags.define_flags()
    flags.mark_flags_as_required(["experiment", "mode", "model_dir"])
    app.run(main)
