"""Groups of `absl` flags that programs have in common.

They are for programs that were written with them. `quintain.garden.common.flags` has those of
programs that train a registered experiment.
"""

import functools
import multiprocessing
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import tensorflow as tf
from absl import app, flags

DTYPE_MAP: Final = {"fp16": tf.float16, "bf16": tf.bfloat16, "fp32": tf.float32}
help_wrap = functools.partial(flags.text_wrap, length=80, indent="", firstline_indent="\n")


def set_defaults(**kwargs: Any) -> None:
    """Gives flags other defaults, by their names."""
    for name, value in kwargs.items():
        flags.FLAGS.set_default(name=name, value=value)


def parse_flags(argv: Sequence[str] | None = None) -> None:
    """Reads the flags anew, for tests.

    Args:
        argv: The program and its arguments; None takes those of this process.
    """
    flags.FLAGS.unparse_flags()
    app.parse_flags_with_usage(list(argv or sys.argv))


def register_key_flags_in_core(f: Callable[..., Iterable[str]]) -> Callable[..., None]:
    """Returns a function that defines flags, and makes those whose names `f` returns key flags.

    Args:
        f: Defines the flags.
    """

    @functools.wraps(f)
    def define(*args: Any, **kwargs: Any) -> None:
        for name in f(*args, **kwargs):
            flags.declare_key_flag(name)

    return define


def define_base(
    data_dir: bool = True,
    model_dir: bool = True,
    clean: bool = False,
    train_epochs: bool = False,
    epochs_between_evals: bool = False,
    stop_threshold: bool = False,
    batch_size: bool = True,
    num_gpu: bool = False,
    hooks: bool = False,
    export_dir: bool = False,
    distribution_strategy: bool = False,
    run_eagerly: bool = False,
) -> None:
    """Defines the flags that are asked for; `num_gpu` defines `num_gpus`."""
    _define(
        (data_dir, flags.DEFINE_string, "data_dir", "dd", "/tmp", "Directory of the data."),
        (model_dir, flags.DEFINE_string, "model_dir", "md", "/tmp", "Directory of the run."),
        (clean, flags.DEFINE_boolean, "clean", None, False, "Remove model_dir first."),
        (train_epochs, flags.DEFINE_integer, "train_epochs", "te", 1, "Epochs to train."),
        (
            epochs_between_evals,
            flags.DEFINE_integer,
            "epochs_between_evals",
            "ebe",
            1,
            "Epochs between two evaluations.",
        ),
        (
            stop_threshold,
            flags.DEFINE_float,
            "stop_threshold",
            "st",
            None,
            "Value of the metric at which the training ends.",
        ),
        (
            batch_size,
            flags.DEFINE_integer,
            "batch_size",
            "bs",
            32,
            "Examples of a step, of all devices together.",
        ),
        (num_gpu, flags.DEFINE_integer, "num_gpus", "ng", 1, "GPUs of each worker; -1 is all."),
        (run_eagerly, flags.DEFINE_boolean, "run_eagerly", None, False, "Run without graphs."),
        (hooks, flags.DEFINE_list, "hooks", "hk", "LoggingTensorHook", "Hooks of the training."),
        (export_dir, flags.DEFINE_string, "export_dir", "ed", None, "Directory of the export."),
        (
            distribution_strategy,
            flags.DEFINE_string,
            "distribution_strategy",
            "ds",
            "mirrored",
            "off, one_device, mirrored, multi_worker_mirrored, parameter_server or tpu.",
        ),
    )


define_base_eager = define_base


def define_log_steps() -> None:
    """Defines `log_steps`."""
    _define((True, flags.DEFINE_integer, "log_steps", None, 100, "Steps between two log lines."))


def define_benchmark(benchmark_log_dir: bool = True, bigquery_uploader: bool = True) -> None:
    """Defines the flags of benchmarks."""
    flags.DEFINE_enum(
        "benchmark_logger_type",
        "BaseBenchmarkLogger",
        ["BaseBenchmarkLogger", "BenchmarkFileLogger"],
        help_wrap("Where results go: to the output, or to benchmark_log_dir."),
    )
    define_log_steps()
    uploads = (
        ("gcp_project", "gp", None, "Project of the upload."),
        ("bigquery_data_set", "bds", "test_benchmark", "Data set of the upload."),
        ("bigquery_run_table", "brt", "benchmark_run", "Table of runs."),
        ("bigquery_run_status_table", "brst", "benchmark_run_status", "Table of states."),
        ("bigquery_metric_table", "bmt", "benchmark_metric", "Table of metrics."),
    )
    _define(
        (True, flags.DEFINE_string, "benchmark_test_id", "bti", None, "Name of the benchmark."),
        (
            benchmark_log_dir,
            flags.DEFINE_string,
            "benchmark_log_dir",
            "bld",
            None,
            "Directory of results.",
        ),
        *((bigquery_uploader, flags.DEFINE_string, *upload) for upload in uploads),
    )
    if benchmark_log_dir:
        flags.register_multi_flags_validator(
            ["benchmark_logger_type", "benchmark_log_dir"],
            lambda given: (
                given["benchmark_logger_type"] != "BenchmarkFileLogger"
                or bool(given["benchmark_log_dir"])
            ),
            "--benchmark_logger_type=BenchmarkFileLogger needs --benchmark_log_dir.",
        )


def define_device(tpu: bool = True) -> None:
    """Defines the flags of TPUs."""
    _define(
        (tpu, flags.DEFINE_string, "tpu", None, None, "Name or grpc:// address of the TPU."),
        (tpu, flags.DEFINE_string, "tpu_zone", None, None, "Zone of the TPU."),
        (tpu, flags.DEFINE_string, "tpu_gcp_project", None, None, "Project of the TPU."),
        (tpu, flags.DEFINE_integer, "num_tpu_shards", None, 8, "Chips of the TPU."),
    )


def define_image(data_format: bool = True) -> None:
    """Defines `data_format`."""
    if data_format:
        formats = ["channels_first", "channels_last"]
        text = help_wrap("Place of the channels of images; None lets the program choose.")
        flags.DEFINE_enum("data_format", None, formats, text, short_name="df")


def define_distribution(worker_hosts: bool = True, task_index: bool = True) -> None:
    """Defines the flags of a cluster."""
    hosts = "host:port of all workers, with commas between them."
    _define(
        (worker_hosts, flags.DEFINE_string, "worker_hosts", None, None, hosts),
        (task_index, flags.DEFINE_integer, "task_index", None, -1, "Place of this worker."),
    )


def define_performance(
    num_parallel_calls: bool = False,
    inter_op: bool = False,
    intra_op: bool = False,
    synthetic_data: bool = False,
    max_train_steps: bool = False,
    dtype: bool = False,
    all_reduce_alg: bool = False,
    num_packs: bool = False,
    tf_gpu_thread_mode: bool = False,
    datasets_num_private_threads: bool = False,
    datasets_num_parallel_batches: bool = False,
    fp16_implementation: bool = False,
    loss_scale: bool = False,
    tf_data_experimental_slack: bool = False,
    enable_xla: bool = False,
    training_dataset_cache: bool = False,
) -> None:
    """Defines the flags that are asked for; `loss_scale` and `fp16_implementation` with `dtype`."""
    integer, boolean, string = flags.DEFINE_integer, flags.DEFINE_bool, flags.DEFINE_string
    num_cpus = multiprocessing.cpu_count()
    threads, batches = "datasets_num_private_threads", "datasets_num_parallel_batches"
    slack, modes = "tf_data_experimental_slack", "global, gpu_private or gpu_shared."
    _define(
        (num_parallel_calls, integer, "num_parallel_calls", "npc", num_cpus, "Parallel reads."),
        (inter_op, integer, "inter_op_parallelism_threads", "inter", 0, "Threads over operations."),
        (intra_op, integer, "intra_op_parallelism_threads", "intra", 0, "Threads of an operation."),
        (synthetic_data, boolean, "use_synthetic_data", "synth", False, "Use data of zeros."),
        (max_train_steps, integer, "max_train_steps", "mts", None, "Step at which to end."),
        (all_reduce_alg, string, "all_reduce_alg", "ara", None, "Algorithm of all-reduces."),
        (num_packs, integer, "num_packs", None, 1, "Packs of gradients."),
        (tf_gpu_thread_mode, string, "tf_gpu_thread_mode", "gt_mode", None, modes),
        (tf_gpu_thread_mode, integer, "per_gpu_thread_count", "pgtc", 0, "Threads of each GPU."),
        (datasets_num_private_threads, integer, threads, None, None, "Threads of datasets."),
        (datasets_num_parallel_batches, integer, batches, None, None, "Batches at a time."),
        (training_dataset_cache, boolean, "training_dataset_cache", None, False, "Keep the data."),
        (tf_data_experimental_slack, boolean, slack, None, False, "Use slack of tf.data."),
        (enable_xla, boolean, "enable_xla", None, False, "Compile by XLA."),
    )
    if not dtype:
        return
    text = help_wrap("What models compute in; variables stay fp32.")
    flags.DEFINE_enum("dtype", "fp32", list(DTYPE_MAP), text, short_name="dt")
    if loss_scale:
        text = help_wrap("What the loss is scaled by under fp16: a number or dynamic.")
        flags.DEFINE_string("loss_scale", None, text, short_name="ls")
        flags.register_validator(
            "loss_scale", _is_loss_scale, "loss_scale: expected a positive number or 'dynamic'."
        )
    if fp16_implementation:
        text = help_wrap("Only keras: rewriting of graphs is no longer part of TensorFlow.")
        flags.DEFINE_enum("fp16_implementation", "keras", ["keras"], text)


def require_cloud_storage(flag_names: Sequence[str]) -> None:
    """Lets a program with `--tpu` take directories on Google Cloud Storage only.

    Args:
        flag_names: The flags of the directories.
    """

    def check(given: Mapping[str, Any]) -> bool:
        paths = [given[name] or "" for name in flag_names]
        return given["tpu"] is None or all(path.startswith("gs://") for path in paths)

    flags.register_multi_flags_validator(
        ["tpu", *flag_names], check, f"--tpu needs gs:// paths for {', '.join(flag_names)}."
    )


def get_num_gpus(flags_obj: Any) -> int:
    """Returns `flags_obj.num_gpus`; the number of GPUs of this machine for -1."""
    if flags_obj.num_gpus != -1:
        return int(flags_obj.num_gpus)
    return len(tf.config.list_physical_devices("GPU"))


def get_tf_dtype(flags_obj: Any) -> tf.DType:
    """Returns the TensorFlow type of `flags_obj.dtype`."""
    return DTYPE_MAP[flags_obj.dtype]


def get_loss_scale(flags_obj: Any, default_for_fp16: Any) -> Any:
    """Returns `dynamic` or the factor of `flags_obj.loss_scale`.

    Args:
        flags_obj: The flags of a program.
        default_for_fp16: What it is under float16 if the flag is not given; otherwise it is 1.
    """
    if flags_obj.loss_scale == "dynamic":
        return flags_obj.loss_scale
    if flags_obj.loss_scale is not None:
        return float(flags_obj.loss_scale)
    return default_for_fp16 if get_tf_dtype(flags_obj) == tf.float16 else 1


def get_nondefault_flags_as_str() -> str:
    """Returns the flags that differ from their defaults, as they are written on a command line."""
    words = []
    for name in sorted(flags.FLAGS):
        flag = flags.FLAGS[name]
        if name == flag.short_name or flag.value == flag.default:
            continue
        if isinstance(flag.value, bool):
            words.append(f"--{name}" if flag.value else f"--no{name}")
        else:
            value = ",".join(flag.value) if isinstance(flag.value, list) else flag.value
            words.append(f"--{name}={value}")
    return shlex.join(words)


def _define(*rows: tuple[bool, Callable[..., Any], str, str | None, Any, str]) -> None:
    """Defines flags: whether, how, name, short name, default and help of each."""
    for is_wanted, define, name, short_name, default, text in rows:
        if is_wanted:
            define(name, default, help_wrap(text), short_name=short_name)


def _is_loss_scale(value: str | None) -> bool:
    try:
        return value in (None, "dynamic") or float(value or "") > 0
    except ValueError:
        return False
