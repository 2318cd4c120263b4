"""`absl` flags of a training program.

`quintain train` has the same flags, and more, without any of this.
"""

import contextlib

from absl import flags

from quintain.run import run_mode


def define_flags() -> None:
    """Defines the flags that `train_utils.parse_configuration` reads, and `mode` and `model_dir`.

    None is required; a program says so itself: `flags.mark_flags_as_required([...])`. A flag that a
    library has defined already stays as it is.
    """
    flags.DEFINE_string("experiment", None, "Name of a registered experiment.")
    flags.DEFINE_enum("mode", None, list(run_mode.Mode), "What to do.")
    flags.DEFINE_string("model_dir", None, "Directory of the run: checkpoints and summaries.")
    flags.DEFINE_multi_string(
        "config_file",
        None,
        "YAML or JSON files that override the experiment, the last one winning.",
    )
    flags.DEFINE_string(
        "params_override",
        None,
        "Overrides after all files: YAML or JSON, a YAML file, or `a.b=1,a.c=2`.",
    )
    with contextlib.suppress(flags.DuplicateFlagError):
        flags.DEFINE_multi_string("gin_file", None, "gin files.")
    with contextlib.suppress(flags.DuplicateFlagError):
        flags.DEFINE_multi_string("gin_params", None, "gin bindings.")
    flags.DEFINE_string("tpu", None, "Name or grpc:// address of the TPU; sets `runtime.tpu`.")
    flags.DEFINE_string("tf_data_service", None, "Address of the tf.data service.")
    flags.DEFINE_string("tpu_platform", None, "Not used: the TPU says what it is.")
    flags.DEFINE_string("tfhub_handle", None, "Not used: nothing is published.")
    flags.DEFINE_string("tflex_output_uri", None, "Not used: nothing is published.")
