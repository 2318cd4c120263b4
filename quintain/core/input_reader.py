"""Reads files of records into sharded, shuffled, batched `tf.data` pipelines.

Everything here is deterministic for a given seed, and every pipeline can save its position in a
checkpoint and go on exactly: only serialisable operations, only explicit seeds.
"""

import difflib
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import tensorflow as tf

from quintain import errors
from quintain.config import base_config
from quintain.core import config_definitions as cfg

DEFAULT_SEED: Final = 0
"""Seed of the order of examples where neither the data nor the runtime config gives one."""

BatchFn = Callable[[tf.data.Dataset, tf.distribute.InputContext | None], tf.data.Dataset]

_COMPRESSION_TYPES: Final = {"tfrecord": "", "tfrecord_compressed": "GZIP"}
_AUTOTUNE_ALGORITHMS: Final = {
    "default": tf.data.experimental.AutotuneAlgorithm.DEFAULT,
    "hill_climb": tf.data.experimental.AutotuneAlgorithm.HILL_CLIMB,
    "gradient_descent": tf.data.experimental.AutotuneAlgorithm.GRADIENT_DESCENT,
    "max_parallelism": tf.data.experimental.AutotuneAlgorithm.MAX_PARALLELISM,
}


def split_paths(input_path: str | Sequence[str], *, name: str = "input_path") -> list[str]:
    """Returns the paths and patterns of a comma-separated string, or of a list of such.

    Raises:
        ConfigError: If `input_path` is neither; `name` is how the message calls it.
    """
    given = [input_path] if isinstance(input_path, str) else input_path
    if not isinstance(given, (list, tuple)) or not all(isinstance(path, str) for path in given):
        raise errors.ConfigError(
            f"{name}: got {input_path!r}, expected a string or a list of strings."
        )
    return [part.strip() for entry in given for part in entry.split(",") if part.strip()]


def match_files(input_path: str | Sequence[str], *, name: str = "input_path") -> list[str]:
    """Returns the files that paths and patterns name.

    Args:
        input_path: Paths, or patterns with `*` and `?`: a comma-separated string or a list.
        name: Name of the config field, for error messages.

    Returns:
        Files in the order given; those of one pattern sorted by name.

    Raises:
        ConfigError: If nothing is given.
        DataError: If a file does not exist, or a pattern matches none.
    """
    paths = split_paths(input_path, name=name)
    if not paths:
        raise errors.ConfigError(
            f"{name}: got {input_path!r}, expected a file, a pattern, or a list of them."
        )
    files: list[str] = []
    for path in paths:
        if "*" in path or "?" in path:
            matched = sorted(tf.io.gfile.glob(path))
            if not matched:
                raise errors.DataError(f"{name}: no file matches {path!r}. Check the pattern.")
            files += matched
        else:
            _check_file(path, name)
            files.append(path)
    return files


def _check_file(path: str, name: str) -> None:
    if tf.io.gfile.exists(path):
        if tf.io.gfile.isdir(path):
            raise errors.DataError(
                f"{name}: {path!r} is a directory, expected a file. To read all files in it, give "
                f"{os.path.join(path, '*')!r}."
            )
        return
    directory = os.path.dirname(path) or "."
    if not tf.io.gfile.isdir(directory):
        raise errors.DataError(f"{name}: no file {path!r}; there is no directory {directory!r}.")
    near = difflib.get_close_matches(os.path.basename(path), tf.io.gfile.listdir(directory), n=1)
    hint = f"Did you mean {os.path.join(os.path.dirname(path), near[0])!r}?" if near else ""
    raise errors.DataError(f"{name}: no file {path!r}. {hint or 'Check the path.'}")


def read_records(path: str | tf.Tensor) -> tf.data.TFRecordDataset:
    """Returns the records of one TFRecord file, compressed with gzip if its name ends in `.gz`."""
    is_compressed = tf.strings.regex_full_match(path, r".*\.gz")
    return tf.data.TFRecordDataset(path, compression_type=tf.where(is_compressed, "GZIP", ""))


def pick_dataset_fn(file_type: str) -> Callable[..., tf.data.Dataset]:
    """Returns the function that reads files of a type.

    Args:
        file_type: `tfrecord`, or `tfrecord_compressed` for gzip.

    Raises:
        ConfigError: If the type is another.
    """
    if file_type in _COMPRESSION_TYPES:
        return functools.partial(
            tf.data.TFRecordDataset, compression_type=_COMPRESSION_TYPES[file_type]
        )
    raise errors.ConfigError(
        f"file_type: got {file_type!r}, expected 'tfrecord' or 'tfrecord_compressed'."
    )


def get_seed(
    params: cfg.DataConfig, input_context: tf.distribute.InputContext | None = None
) -> int:
    """Returns the seed of the order of examples.

    Workers that read their own part of the data share it. Workers that all read everything
    (`sharding` is off) each get another, so that they do not train on the same batches.
    """
    seed: int = DEFAULT_SEED if params.seed is None else params.seed
    if input_context is None or params.sharding:
        return seed
    return seed + int(input_context.input_pipeline_id)


def draw_uniform(num: int, *, seed: int, epoch: tf.Tensor, stream: int = 0) -> tf.Tensor:
    """Draws numbers that depend on nothing but the arguments, to order an epoch by.

    `Dataset.shuffle` remembers where it is; an order computed from the number of the epoch need
    not, which makes positions small and restores them exactly, wherever the iterator was before.

    Args:
        num: Numbers to draw.
        seed: Seed of the whole run.
        epoch: Scalar integer, the number of the epoch.
        stream: 0 or 1, to have two independent draws for an epoch.

    Returns:
        `[num]` float64 in `[0, 1)`.
    """
    pair = tf.stack([tf.constant(seed, tf.int64), 2 * tf.cast(epoch, tf.int64) + stream])
    return tf.random.stateless_uniform([num], pair, dtype=tf.float64, alg="philox")


def per_replica_batch_size(
    params: cfg.DataConfig, input_context: tf.distribute.InputContext | None = None
) -> int:
    """Returns the part of `global_batch_size` that one replica gets.

    Raises:
        ConfigError: If it is not a positive whole number.
    """
    size = params.global_batch_size
    num_replicas = input_context.num_replicas_in_sync if input_context else 1
    if size < 1 or size % num_replicas:
        raise errors.ConfigError(
            f"global_batch_size: got {size!r}, expected a positive multiple of the number of "
            f"replicas, {num_replicas}."
        )
    return int(size // num_replicas)


def finish(dataset: tf.data.Dataset, params: cfg.DataConfig) -> tf.data.Dataset:
    """Returns a batched dataset with the config's options set and batches prepared ahead.

    Raises:
        ConfigError: If `autotune_algorithm` is not known.
    """
    options = tf.data.Options()
    options.deterministic = params.deterministic is not False
    # Workers take their part of the data themselves, see `InputReader`.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    if params.ram_budget is not None:
        options.autotune.ram_budget = params.ram_budget * 2**30
    if params.autotune_algorithm is not None:
        if params.autotune_algorithm not in _AUTOTUNE_ALGORITHMS:
            known = ", ".join(map(repr, _AUTOTUNE_ALGORITHMS))
            raise errors.ConfigError(
                f"autotune_algorithm: got {params.autotune_algorithm!r}, expected one of {known}."
            )
        options.autotune.autotune_algorithm = _AUTOTUNE_ALGORITHMS[params.autotune_algorithm]
    size = params.prefetch_buffer_size
    return dataset.with_options(options).prefetch(tf.data.AUTOTUNE if size is None else size)


class InputReader:
    """Builds a pipeline from files: read, shuffle, decode, parse, batch.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/numbers.tfrecord"
        >>> with tf.io.TFRecordWriter(path) as writer:
        ...     for i in range(5):
        ...         writer.write(str(i).encode())
        >>> params = cfg.DataConfig(input_path=path, global_batch_size=2, is_training=False)
        >>> reader = InputReader(params, decoder_fn=tf.strings.to_number)
        >>> [batch.numpy().tolist() for batch in reader.read()]
        [[0.0, 1.0], [2.0, 3.0], [4.0]]
    """

    def __init__(
        self,
        params: cfg.DataConfig,
        dataset_fn: Callable[..., tf.data.Dataset] = tf.data.TFRecordDataset,
        decoder_fn: Callable[..., Any] | None = None,
        *,
        combine_fn: Callable[[dict[str, tf.data.Dataset]], tf.data.Dataset] | None = None,
        sample_fn: Callable[[tf.data.Dataset], tf.data.Dataset] | None = None,
        parser_fn: Callable[..., Any] | None = None,
        filter_fn: Callable[..., tf.Tensor] | None = None,
        transform_and_batch_fn: BatchFn | None = None,
        postprocess_fn: Callable[..., Any] | None = None,
    ) -> None:
        """Stores and checks what each stage does. Stages that are not given are left out.

        Args:
            params: Where the files are, and how to shuffle and batch.
            dataset_fn: Makes a dataset of records from a file name.
            decoder_fn: Maps a record to an example.
            combine_fn: Makes one dataset of several; needed if `input_path` is a mapping, whose
                names it gets.
            sample_fn: Maps the dataset of examples to another, for instance to balance it.
            parser_fn: Maps an example to what the model takes.
            filter_fn: Says which parsed examples to keep.
            transform_and_batch_fn: Makes batches, from the dataset and the input context. If not
                given, consecutive examples are batched.
            postprocess_fn: Maps a batch to another.

        Raises:
            ConfigError: If the config names no files, or asks for what is not built yet; or if
                `input_path` is a mapping and there is no `combine_fn`, or the other way round.
        """
        for field in ("tfds_name", "enable_tf_data_service"):
            if getattr(params, field):
                raise errors.ConfigError(
                    f"{field}: got {getattr(params, field)!r}, but this is not built yet. Give "
                    "files in input_path, and leave it at its default."
                )
        self._params = params
        self._sources = _get_sources(params.input_path)
        if (combine_fn is not None) != (set(self._sources) != {""}):
            raise errors.ConfigError(
                f"input_path: got {params.input_path!r} and combine_fn={combine_fn!r}. A mapping "
                "of sources needs a combine_fn, and only a mapping does."
            )
        self._dataset_fn = dataset_fn
        self._decoder_fn = decoder_fn
        self._combine_fn = combine_fn
        self._sample_fn = sample_fn
        self._parser_fn = parser_fn
        self._filter_fn = filter_fn
        self._transform_and_batch_fn = transform_and_batch_fn
        self._postprocess_fn = postprocess_fn

    def read(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        """Returns the batches of this worker.

        Training data is shuffled and never ends. Evaluation data keeps its order, ends, and keeps a
        last batch that is not full; all workers together see every example once.

        Args:
            input_context: Which part of the data this worker reads, and for how many replicas.

        Raises:
            ConfigError: If the batch size does not fit the replicas.
            DataError: If a file does not exist.
        """
        dataset = self._read_examples(input_context)
        dataset = self._parse(dataset, input_context)
        if self._transform_and_batch_fn is not None:
            dataset = self._transform_and_batch_fn(dataset, input_context)
        else:
            dataset = dataset.batch(
                per_replica_batch_size(self._params, input_context),
                drop_remainder=self._is_training and self._params.drop_remainder,
            )
        if self._postprocess_fn is not None:
            dataset = self._map(dataset, self._postprocess_fn)
        return finish(dataset, self._params)

    @property
    def _is_training(self) -> bool:
        return bool(self._params.is_training)

    def _map(self, dataset: tf.data.Dataset, fn: Callable[..., Any]) -> tf.data.Dataset:
        return dataset.map(fn, num_parallel_calls=tf.data.AUTOTUNE)

    def _shuffle(
        self, dataset: tf.data.Dataset, input_context: tf.distribute.InputContext | None
    ) -> tf.data.Dataset:
        if not self._is_training or self._params.shuffle_buffer_size < 2:
            return dataset
        seed = get_seed(self._params, input_context)
        return dataset.shuffle(self._params.shuffle_buffer_size, seed=seed)

    def _read_examples(self, input_context: tf.distribute.InputContext | None) -> tf.data.Dataset:
        datasets = {}
        for name, paths in self._sources.items():
            dataset = self._read_files(match_files(paths), input_context)
            if not self._params.cache:
                dataset = self._shuffle(dataset, input_context)
            if self._decoder_fn is not None:
                dataset = self._map(dataset, self._decoder_fn)
            datasets[name] = dataset
        return datasets[""] if self._combine_fn is None else self._combine_fn(datasets)

    def _parse(
        self, dataset: tf.data.Dataset, input_context: tf.distribute.InputContext | None
    ) -> tf.data.Dataset:
        if self._sample_fn is not None:
            dataset = self._sample_fn(dataset)
        if self._parser_fn is not None:
            dataset = self._map(dataset, self._parser_fn)
        if self._filter_fn is not None:
            dataset = dataset.filter(self._filter_fn)
        if self._params.cache:
            dataset = self._shuffle(dataset.cache(), input_context)
            if self._is_training:
                dataset = dataset.repeat()
        return dataset

    def _read_files(
        self, files: list[str], input_context: tf.distribute.InputContext | None
    ) -> tf.data.Dataset:
        """Returns this worker's records.

        Training shares out whole files if there are enough of them, which reads every file once.
        Otherwise, and in evaluation, where no example may be missed or seen twice, every worker
        reads all files and takes every n-th record.
        """
        params = self._params
        num_pipelines, pipeline = 1, 0
        if input_context is not None and params.sharding:
            num_pipelines = input_context.num_input_pipelines
            pipeline = input_context.input_pipeline_id
        if not self._is_training:
            dataset = tf.data.Dataset.from_tensor_slices(files).flat_map(self._dataset_fn)
            return dataset.shard(num_pipelines, pipeline)

        shares_files = len(files) >= num_pipelines
        dataset = self._order_files(
            files,
            seed=get_seed(params, input_context),
            part=slice(pipeline, None, num_pipelines) if shares_files else slice(None),
        ).interleave(
            self._dataset_fn,
            cycle_length=params.cycle_length,
            block_length=params.block_length,
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        return dataset if shares_files else dataset.shard(num_pipelines, pipeline)

    def _order_files(self, files: list[str], *, seed: int, part: slice) -> tf.data.Dataset:
        """Returns file names in a new order every epoch: once if cached, else without end."""

        def draw_order(epoch: tf.Tensor) -> tf.data.Dataset:
            order = tf.argsort(draw_uniform(len(files), seed=seed, epoch=epoch), stable=True)
            return tf.data.Dataset.from_tensor_slices(tf.gather(files, order[part]))

        epochs = tf.data.Dataset.range(1) if self._params.cache else tf.data.Dataset.counter()
        return epochs.flat_map(draw_order)


def _get_sources(input_path: Any) -> dict[str, str | Sequence[str]]:
    """Returns the paths of every named source; one source without a name is called ""."""
    if isinstance(input_path, base_config.Config):
        return dict(input_path.as_dict())
    if isinstance(input_path, Mapping):
        return dict(input_path)
    return {"": input_path}
