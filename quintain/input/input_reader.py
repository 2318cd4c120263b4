"""Reads records into sharded, shuffled, batched `tf.data` pipelines.

Everything here is deterministic for a given seed, and every pipeline can save its position in a
checkpoint and go on exactly: only serialisable operations, only explicit seeds. The exception is
data that a tf.data service prepares, see `quintain.input.data_service`.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, Final

import tensorflow as tf

from quintain import errors
from quintain.input import data_service, input_files, input_sources, poisson_sampling, tfds_source
from quintain.input import dataset_fn as dataset_fns
from quintain.settings import config_definitions as cfg

DEFAULT_SEED: Final = 0
"""Seed of the order of examples where neither the data nor the runtime config gives one."""

BatchFn = Callable[[tf.data.Dataset, tf.distribute.InputContext | None], tf.data.Dataset]

split_paths = input_files.split_paths
match_files = input_files.match_files
read_records = input_files.read_records
draw_uniform = input_files.draw_uniform
pick_dataset_fn = dataset_fns.pick_dataset_fn

_AUTOTUNE_ALGORITHMS: Final = {
    "default": tf.data.experimental.AutotuneAlgorithm.DEFAULT,
    "hill_climb": tf.data.experimental.AutotuneAlgorithm.HILL_CLIMB,
    "gradient_descent": tf.data.experimental.AutotuneAlgorithm.GRADIENT_DESCENT,
    "max_parallelism": tf.data.experimental.AutotuneAlgorithm.MAX_PARALLELISM,
}


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
        algorithm = params.autotune_algorithm.lower()
        if algorithm not in _AUTOTUNE_ALGORITHMS:
            known = ", ".join(map(repr, _AUTOTUNE_ALGORITHMS))
            raise errors.ConfigError(
                f"autotune_algorithm: got {params.autotune_algorithm!r}, expected one of {known}."
            )
        options.autotune.autotune_algorithm = _AUTOTUNE_ALGORITHMS[algorithm]
    size = params.prefetch_buffer_size
    dataset = dataset.with_options(options)
    return dataset.prefetch(tf.data.AUTOTUNE if size is None else size, name="prefetch")


class InputReader:
    """Builds a pipeline from files or TensorFlow Datasets: read, shuffle, decode, parse, batch.

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

    static_randnum: Final = data_service.PROCESS_NUMBER
    """A number of this process, part of the names of its tf.data service jobs."""

    def __init__(
        self,
        params: cfg.DataConfig,
        dataset_fn: Callable[..., tf.data.Dataset] = tf.data.TFRecordDataset,
        decoder_fn: Callable[..., Any] | None = None,
        combine_fn: Callable[[dict[str, tf.data.Dataset]], tf.data.Dataset] | None = None,
        sample_fn: Callable[[tf.data.Dataset], tf.data.Dataset] | None = None,
        parser_fn: Callable[..., Any] | None = None,
        filter_fn: Callable[..., tf.Tensor] | None = None,
        transform_and_batch_fn: BatchFn | None = None,
        postprocess_fn: Callable[..., Any] | None = None,
    ) -> None:
        """Stores and checks what each stage does. Stages that are not given are left out.

        Args:
            params: Where the data is, and how to shuffle and batch.
            dataset_fn: Makes a dataset of records from a file name. `tf.data.TFRecordDataset` and
                `tf.data.TextLineDataset` read files whose name ends in `.gz` as compressed.
            decoder_fn: Maps a record to an example.
            combine_fn: Makes one dataset of several; needed if `input_path` or `tfds_name` is a
                mapping without weights, whose names it gets.
            sample_fn: Maps the dataset of examples to another, for instance to balance it.
            parser_fn: Maps an example to what the model takes.
            filter_fn: Says which parsed examples to keep.
            transform_and_batch_fn: Makes batches, from the dataset and the input context. If not
                given, consecutive examples are batched.
            postprocess_fn: Maps a batch to another.

        Raises:
            ConfigError: If the config names no data, or contradicts itself; or if there are several
                sources, and neither weights nor a `combine_fn`.
            DataError: If a file or a prepared entry does not exist.
        """
        problems = [errors.Problem(field, text) for field, text in params.check()]
        if problems:
            raise errors.ConfigError.from_problems(problems)
        self._params = params
        self._sources = input_sources.get_sources(params)
        input_sources.check_combination(self._sources, has_combine_fn=combine_fn is not None)
        self._dataset_fn = input_files.with_compression(dataset_fn)
        self._decoder_fn = decoder_fn
        self._combine_fn = combine_fn
        self._sample_fn = sample_fn
        self._parser_fn = parser_fn
        self._filter_fn = filter_fn
        self._transform_and_batch_fn = transform_and_batch_fn
        self._postprocess_fn = postprocess_fn
        self._origins = {source.name: self._find(source) for source in self._sources}

    def get_files(self, input_path: str | Sequence[str], name: str = "input_path") -> list[str]:
        """Returns the files of one source. Subclasses may find them in another way."""
        return input_files.match_files(input_path, name=name)

    @property
    def tfds_info(self) -> Any:
        """`tfds.core.DatasetInfo` of the TensorFlow Datasets entry; by name if there are several.

        Raises:
            ConfigError: If the data comes from files.
        """
        if not self._params.tfds_name:
            raise errors.ConfigError("tfds_name: got '', so that there is no tfds_info.")
        infos = {name: builder.info for name, builder in self._origins.items()}
        return infos.get(input_sources.UNNAMED, infos)

    def read(
        self,
        input_context: tf.distribute.InputContext | None = None,
        dataset: tf.data.Dataset | None = None,
    ) -> tf.data.Dataset:
        """Returns the batches of this worker.

        Training data is shuffled and never ends. Evaluation data keeps its order, ends, and keeps a
        last batch that is not full; all workers together see every example once.

        Args:
            input_context: Which part of the data this worker reads, and for how many replicas.
            dataset: This worker's records, instead of those that the config names.

        Raises:
            ConfigError: If the batch size does not fit the replicas.
            DataError: If the first file can't be read, there is no record to train on, or the
                tf.data service can't be reached.
        """
        params = self._params
        if self._draws_by_chance and dataset is None:
            return finish(self._draw(input_context), params)
        dataset = self._parse(self._read_examples(input_context, dataset), input_context)
        serves_examples = params.apply_tf_data_service_before_batching
        if params.enable_tf_data_service and serves_examples:
            dataset = data_service.distribute(dataset, params, input_context)
        if self._transform_and_batch_fn is not None:
            dataset = self._transform_and_batch_fn(dataset, input_context)
        else:
            dataset = dataset.batch(
                per_replica_batch_size(params, input_context),
                drop_remainder=self._is_training and params.drop_remainder,
                name="batch",
            )
        dataset = self._map(dataset, self._postprocess_fn, "postprocess")
        if params.enable_tf_data_service and not serves_examples:
            dataset = data_service.distribute(dataset, params, input_context)
        return finish(dataset, params)

    @property
    def _is_training(self) -> bool:
        return bool(self._params.is_training)

    @property
    def _draws_by_chance(self) -> bool:
        is_wanted = self._is_training and self._params.poisson_num_examples is not None
        makes_batches = self._transform_and_batch_fn is None
        return is_wanted and makes_batches and not self._params.enable_tf_data_service

    def _draw(self, input_context: tf.distribute.InputContext | None) -> tf.data.Dataset:
        """Returns batches in which every example takes part by chance (see `poisson_sampling`)."""
        params = self._params
        ordered = copy.copy(self)
        ordered._params = params.replace(is_training=False, cache=False)
        batches = poisson_sampling.sample(
            ordered._parse(ordered._read_examples(None, None), None),
            num_examples=params.poisson_num_examples or 0,
            batch_size=params.global_batch_size,
            seed=get_seed(params),
            share=poisson_sampling.Share.from_context(input_context),
        )
        postprocess = self._postprocess_fn
        if postprocess is None:
            return batches
        return batches.map(
            lambda batch: batch._replace(
                inputs=postprocess(*batch.inputs)
                if isinstance(batch.inputs, tuple)
                else postprocess(batch.inputs)
            )
        )

    def _find(self, source: input_sources.Source) -> Any:
        """Returns a source's files, or its `tfds.core.DatasetBuilder`."""
        if source.is_catalogued:
            return tfds_source.build_builder(source, self._params)
        if source.name == input_sources.UNNAMED:
            return self.get_files(source.location)  # Subclasses may take no name.
        return self.get_files(source.location, name=source.field)

    def _seed(self, input_context: tf.distribute.InputContext | None) -> int | None:
        """Returns the seed; None under a tf.data service, whose workers must differ."""
        if self._params.enable_tf_data_service:
            return None
        return get_seed(self._params, input_context)

    def _map(
        self, dataset: tf.data.Dataset, fn: Callable[..., Any] | None, name: str
    ) -> tf.data.Dataset:
        if fn is None:
            return dataset
        mapped = dataset.map(fn, num_parallel_calls=tf.data.AUTOTUNE, name=name)
        return self._leave_out(mapped) if name in ("decode", "parse") else mapped

    def _leave_out(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """Returns a dataset without what can't be read or parsed, if the config says so."""
        skips = self._params.corrupt_records == "skip"
        return dataset.ignore_errors(log_warning=True, name="corrupt") if skips else dataset

    def _shuffle(
        self, dataset: tf.data.Dataset, input_context: tf.distribute.InputContext | None
    ) -> tf.data.Dataset:
        if not self._is_training or self._params.shuffle_buffer_size < 2:
            return dataset
        seed = self._seed(input_context)
        return dataset.shuffle(self._params.shuffle_buffer_size, seed=seed, name="shuffle")

    def _cache(
        self, dataset: tf.data.Dataset, input_context: tf.distribute.InputContext | None
    ) -> tf.data.Dataset:
        dataset = self._shuffle(dataset.cache(name="cache"), input_context)
        return dataset.repeat() if self._is_training else dataset

    def _read_examples(
        self,
        input_context: tf.distribute.InputContext | None,
        records: tf.data.Dataset | None,
    ) -> tf.data.Dataset:
        """Reads, shuffles and decodes every source, and makes one of them."""
        if records is not None:
            return self._decode(records, input_context)
        datasets = {
            source.name: self._decode(self._read_source(source, input_context), input_context)
            for source in self._sources
        }
        if self._mixes_cached:
            datasets = {name: self._cache(part, input_context) for name, part in datasets.items()}
        if self._combine_fn is not None:
            return self._combine_fn(datasets)
        if not input_sources.is_mixture(self._sources):
            return datasets[input_sources.UNNAMED]
        return input_sources.mix(
            list(datasets.values()),
            [source.weight or 1.0 for source in self._sources],
            seed=self._seed(input_context),
            is_training=self._is_training,
        )

    @property
    def _mixes_cached(self) -> bool:
        """True if sources are cached one by one: a cached mixture would have lost its weights."""
        is_mixture = input_sources.is_mixture(self._sources)
        return is_mixture and self._params.cache and self._is_training

    def _read_source(
        self, source: input_sources.Source, input_context: tf.distribute.InputContext | None
    ) -> tf.data.Dataset:
        params = self._params
        share: dict[str, Any] = {"seed": self._seed(input_context)}
        if input_context is not None and params.sharding and not params.enable_tf_data_service:
            share["num_pipelines"] = input_context.num_input_pipelines
            share["pipeline"] = input_context.input_pipeline_id
        origin = self._origins[source.name]
        if source.is_catalogued:
            return tfds_source.read(origin, source, params, **share)
        if params.corrupt_records == "refuse":
            input_files.check_readable(
                origin, self._dataset_fn, is_training=self._is_training, name=source.field
            )
        return self._leave_out(input_files.read_files(origin, params, self._dataset_fn, **share))

    def _decode(
        self, dataset: tf.data.Dataset, input_context: tf.distribute.InputContext | None
    ) -> tf.data.Dataset:
        if not self._params.cache:
            dataset = self._shuffle(dataset, input_context)
        return self._map(dataset, self._decoder_fn, "decode")

    def _parse(
        self, dataset: tf.data.Dataset, input_context: tf.distribute.InputContext | None
    ) -> tf.data.Dataset:
        if self._sample_fn is not None:
            dataset = self._sample_fn(dataset)
        dataset = self._map(dataset, self._parser_fn, "parse")
        if self._filter_fn is not None:
            dataset = dataset.filter(self._filter_fn, name="filter")
        if self._params.cache and not self._mixes_cached:
            dataset = self._cache(dataset, input_context)
        return dataset
