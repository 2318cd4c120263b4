"""Config of input data: sources and batches."""

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from quintain import errors
from quintain.config import base_config
from quintain.optimization.configs import ranges

NonNegativeInt = ranges.Steps
PositiveInt = ranges.Period


@dataclasses.dataclass
class DataConfig(base_config.Config):
    """Source of the examples, and how they are batched.

    A field of a task may be None in its place, where the trainer is given a dataset.
    """

    _may_be_none: ClassVar[bool] = True

    input_path: Any = ""
    """File, pattern, comma-separated list or list of them. A mapping names several sources, each a
    path or, to mix them by weight, `{path: ..., weight: ...}`."""

    tfds_name: Any = ""
    """Name of a TensorFlow Datasets entry, instead of `input_path`. A mapping names several, each a
    name or, to mix them by weight, `{name: ..., weight: ..., split: ...}`."""

    tfds_split: str = ""
    """Split of `tfds_name` to read, such as `train` or `train[:80%]`."""

    global_batch_size: NonNegativeInt = 0
    """Examples (or tokens, where the task says so) in a batch over all replicas."""

    is_training: bool | None = None
    """Whether the data is shuffled and repeated for training."""

    drop_remainder: bool = True
    """Whether training drops a last batch that is not full. Evaluation never drops examples."""

    shuffle_buffer_size: NonNegativeInt = 100
    """Examples held in the shuffle buffer of training. 0 and 1 keep the order."""

    cache: bool = False
    """Whether parsed examples stay in memory after the first pass. Of sources mixed by weight, the
    decoded examples stay."""

    cycle_length: PositiveInt | None = None
    """Files read at the same time. None lets tf.data choose in training, and reads one file after
    the other in evaluation."""

    block_length: PositiveInt = 1
    """Consecutive examples taken from a file before turning to the next."""

    ram_budget: PositiveInt | None = None
    """GB of memory that tf.data's tuner may use. None lets tf.data choose."""

    deterministic: bool | None = None
    """Whether the order of examples is fixed. None means yes; False may be faster."""

    sharding: bool = True
    """Whether each worker reads its own part of the data."""

    enable_tf_data_service: bool = False
    """Whether a tf.data service prepares the batches. The position in them is not stored."""

    tf_data_service_address: str | None = None
    """Address of the tf.data service dispatcher, such as `grpc://10.0.0.5:5050`."""

    tf_data_service_job_name: str | None = None
    """Name of the tf.data service job, which is completed by the batch size and, where it is not
    shared, by a number of the process. None means `quintain`."""

    tfds_data_dir: str = ""
    """Directory that holds prepared TensorFlow Datasets. Empty: `~/tensorflow_datasets`, or
    `TFDS_DATA_DIR`."""

    tfds_as_supervised: bool = False
    """Whether TensorFlow Datasets yields `(features, label)` pairs."""

    tfds_skip_decoding_feature: str = ""
    """Comma-separated TensorFlow Datasets features to leave encoded."""

    enable_shared_tf_data_service_between_parallel_trainers: bool = False
    """Whether runs with the same job name train on the same batches, prepared once. Each needs a
    `trainer_id`. Evaluation is not shared."""

    apply_tf_data_service_before_batching: bool = False
    """Whether the tf.data service ends before batching, so that runs with different batch sizes can
    share it."""

    trainer_id: str | None = None
    """This run's name among those that share a tf.data service cache."""

    seed: int | None = None
    """Seed of shuffling. None takes `runtime.seed`, so that a run can be repeated."""

    poisson_num_examples: PositiveInt | None = None
    """Examples in the data, each of which is part of a training batch by chance, so that
    `global_batch_size` is a mean. None makes batches of that size. Set by
    `task.differential_privacy_config`."""

    prefetch_buffer_size: NonNegativeInt | None = None
    """Batches prepared ahead. None lets tf.data choose."""

    autotune_algorithm: str | None = None
    """tf.data tuning algorithm: `default`, `hill_climb`, `gradient_descent` or
    `max_parallelism`."""

    corrupt_records: Literal["refuse", "skip"] = "refuse"
    """Whether a record that can't be read or parsed ends the run, or is left out with a warning. Of
    a file that is torn in the middle, the rest is left out."""

    overfit_batches: NonNegativeInt = 0
    """Batches of training that are read, again and again: a model that can learn learns them by
    heart. 0 reads all."""

    tfds_download: bool = False
    """Whether a TensorFlow Datasets entry that is not prepared may be downloaded."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the fields whose values do not fit together."""
        if self.input_path and self.tfds_name:
            yield (
                "tfds_name",
                f"got {errors.show(self.tfds_name)}, and input_path "
                f"{errors.show(self.input_path)}; expected one of the "
                "two. Leave the other empty.",
            )
        if isinstance(self.tfds_name, str) and self.tfds_name and not self.tfds_split:
            yield "tfds_split", "got '', expected the split of tfds_name to read, such as 'train'."
        if self.enable_tf_data_service and not self.tf_data_service_address:
            yield (
                "tf_data_service_address",
                f"got {errors.show(self.tf_data_service_address)}, expected the address "
                f"of the tf.data "
                "service, such as 'grpc://10.0.0.5:5050', with enable_tf_data_service.",
            )
        if self.enable_shared_tf_data_service_between_parallel_trainers and not self.trainer_id:
            yield (
                "trainer_id",
                f"got {errors.show(self.trainer_id)}, expected a name for this run, "
                f"unlike those of the runs "
                "that share the tf.data service with it.",
            )
