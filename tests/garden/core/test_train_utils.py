"""The reference's names for things that have modules of their own."""

import tensorflow as tf

from quintain.garden.core import train_utils


def test_a_config_is_built_from_an_object_with_options(line_params):
    options = train_utils.ParseConfigOptions(
        experiment="test/line", config_file=[], params_override="trainer.train_steps=10"
    )

    by_class = train_utils.ExperimentParser(options).parse()
    by_function = train_utils.parse_configuration(options)

    assert by_class.as_dict() == by_function.as_dict()
    assert by_class.trainer.train_steps == 10
    by_class.trainer.train_steps = 11


def test_exporter_of_best_checkpoints_is_made_only_if_asked_for(line_params, tmp_path):
    asked = {"best_checkpoint_export_subdir": "best", "best_checkpoint_eval_metric": "a|b"}
    params = line_params({"trainer": asked})

    exporter = train_utils.maybe_create_best_ckpt_exporter(params, str(tmp_path))

    assert exporter.maybe_export_checkpoint(
        tf.train.Checkpoint(v=tf.Variable(1.0)), {"a": {"b": 5.0}}, 100
    )
    assert (tmp_path / "best" / "info.json").exists()
    assert train_utils.maybe_create_best_ckpt_exporter(params, "") is None
    assert train_utils.maybe_create_best_ckpt_exporter(line_params(), str(tmp_path)) is None


def test_gin_config_is_saved_under_the_mode(tmp_path):
    train_utils.save_gin_config("train", str(tmp_path / "run"))

    assert (tmp_path / "run" / "operative_config.train.gin").exists()


def test_every_name_of_the_reference_is_there():
    names = {
        "BestCheckpointExporter",
        "ExperimentParser",
        "ParseConfigOptions",
        "cast_leaf_nested_dict",
        "create_optimizer",
        "create_trainer",
        "get_leaf_nested_dict",
        "maybe_create_best_ckpt_exporter",
        "parse_configuration",
        "read_global_step_from_checkpoint",
        "remove_ckpts",
        "save_gin_config",
        "serialize_config",
        "try_count_flops",
        "try_count_params",
        "write_json_summary",
        "write_model_params",
        "write_summary",
    }

    assert names <= set(dir(train_utils))
