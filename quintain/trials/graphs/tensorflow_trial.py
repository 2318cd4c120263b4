"""Graphs of low-level TensorFlow as trials."""

import abc
import concurrent.futures
import contextlib
import json
import logging
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import tensorflow as tf

from quintain import errors
from quintain.files import literal_paths
from quintain.input.diagnosis import data_faults, pipeline_inspection
from quintain.trials import base_trial, trial_context, workload_metrics
from quintain.trials.graphs import (
    gradient_sums,
    graph_data,
    graph_variables,
    repeatable_random,
    update_order,
)
from quintain.trials.older import tf1_mode
from quintain.trials.process import background_calls

v1 = tf.compat.v1

_VARIABLES: Final = "variables"
_ITERATOR: Final = "iterator"
_STATE_FILE: Final = "training_state.json"
_SAVED_MODEL: Final = "saved_model"
_SIGNATURE: Final = v1.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
_LOSS: Final = "loss"

logger = logging.getLogger(__name__)


class TensorFlowTrial(base_trial.Trial):
    """A trial made of one graph, which trains and validates.

    The module has a function `make_data_loaders(experiment_config, hparams)` beside the class,
    which returns a training and a validation dataset, both batched, not repeated, and of equal
    structure. It may have `download_data(experiment_config, hparams)`, which is called before and
    returns a directory.
    """

    controller_module: ClassVar[str] = "quintain.trials.graphs.tensorflow_trial"

    @abc.abstractmethod
    def optimizer(self) -> Any:
        """Returns the optimizer, a `tf.train.Optimizer`. Called once, after `build_graph`."""

    @abc.abstractmethod
    def build_graph(self, record: Any, is_training: tf.Tensor) -> dict[str, tf.Tensor]:
        """Builds the graph for training and validation. Called once.

        Args:
            record: One batch of the datasets, in their structure.
            is_training: Scalar boolean tensor: true in training steps, false in validation.

        Returns:
            Tensors by name. `loss`, a scalar, is minimised; others may be metrics.
        """

    @abc.abstractmethod
    def validation_metrics(self) -> list[str]:
        """Returns the names of tensors that are measured on the validation data."""

    def training_metrics(self) -> list[str]:
        """Returns the names of tensors, other than `loss`, that are measured in training."""
        return []

    def session_config(self) -> Any:
        """Returns the `tf.ConfigProto` of the session."""
        return v1.ConfigProto(allow_soft_placement=True)

    def training_counter(self) -> tf.Variable:
        """Returns the variable that counts the batches trained on: `tf.train.get_global_step()`.

        May be called in `build_graph` and `optimizer`, to let a learning rate decay, say.
        """
        return v1.train.get_or_create_global_step()


def build_controller(
    trial_class: type[TensorFlowTrial], context: trial_context.TrialContext
) -> "TensorFlowTrialController":
    """Makes the trial and what drives it."""
    tf1_mode.enable()
    return TensorFlowTrialController(base_trial.create_trial(trial_class, context), context)


class TensorFlowTrialController(base_trial.TrialController):
    """Runs one session over one graph."""

    def __init__(self, trial: TensorFlowTrial, context: trial_context.TrialContext) -> None:
        """Builds data, graph and session.

        Raises:
            TrialError: If the datasets don't fit together or are not batched, `loss` is missing,
                or a metric is none of the graph's tensors.
        """
        super().__init__(trial, context)
        gradient_sums.refuse_mixed_precision(context)
        self._batches = 0
        self._validation_start: concurrent.futures.Future[Any] | None = None
        self._graph = tf.Graph()
        with self._graph.as_default():
            session_config = base_trial.call_with_hparams(trial.session_config, context)
            v1.set_random_seed(context.get_trial_seed())
            v1.train.create_global_step()  # So that all methods find it.
            train, validation = self._make_datasets()
            repeated = train.repeat()
            inspection = pipeline_inspection.inspect(repeated)
            inspection.warn()
            self._is_saved = inspection.is_saved
            self._train_iterator = v1.data.make_initializable_iterator(repeated)
            self._validation_iterator = v1.data.make_initializable_iterator(validation)
            self._handle = v1.placeholder(tf.string, [], "iterator_handle")
            self._is_training = v1.placeholder(tf.bool, [], "is_training")
            self._step = v1.placeholder_with_default(tf.constant(0, tf.int64), [], "random_step")
            self._record = graph_data.read(self._handle, train, validation)
            with repeatable_random.random_ops_by_step(self._step):
                self._outputs = self._build_outputs()
                trained = {variable.ref() for variable in v1.trainable_variables()}
                self._untrained = [  # Those of the optimizer come later; a validation has none.
                    variable for variable in v1.global_variables() if variable.ref() not in trained
                ]
                self._train_op = self._build_train_op()
            self._train_names = [_LOSS, *self._check_names("training_metrics")]
            self._validation_names = self._check_names("validation_metrics")
            update_order.measure_before_updates(
                [self._outputs[name] for name in self._train_names], self._train_op
            )
            self._saver = v1.train.Saver(save_relative_paths=True)
            self._iterator_saver = v1.train.Saver(
                [tf.data.experimental.make_saveable_from_iterator(self._train_iterator)]
            )
            self._local_variables = graph_variables.LocalVariables()
            self._open_session(session_config)
            # After all else: seeds of operations depend on how many there were before.
            if self._session.run(validation.cardinality()) == tf.data.INFINITE_CARDINALITY:
                raise errors.TrialError(
                    "make_data_loaders(): the validation dataset never ends, expected one pass; "
                    "leave .repeat() out."
                )

    def list_validation_metrics(self) -> list[str]:
        """Returns what the trial's `validation_metrics` lists."""
        return self._validation_names

    def file_errors_named(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context in which errors about damaged data name their file."""
        return data_faults.data_errors_explained(lambda: [self._graph])

    def train(self, num_batches: int) -> base_trial.TrainResult:
        """Trains on the next batches."""
        batches = []
        num_inputs = 0
        for _ in range(num_batches):
            _, size, *values = self._run_train(self._train_handle, True, self._batches)
            self._batches += 1
            self.context.has_trained = True
            num_inputs += int(size)
            named = zip(self._train_names, values, strict=True)
            batches.append({name: value.tolist() for name, value in named})
        return base_trial.TrainResult(num_inputs, batches)

    def count_batches(self) -> int:
        """Returns the batches that were trained on."""
        return self._batches

    def validate(self) -> base_trial.ValidationResult:
        """Goes through the validation data once; metrics are means over the batches."""
        (self._validation_start or self._start_validation()).result()
        self._validation_start = None
        with (
            graph_variables.variables_preserved(self._session, self._untrained),
            self._local_variables.initial_values(self._session),
        ):
            sums, num_inputs = self._validate_batches()
        self._validation_start = self._start_validation()
        if not sums:
            raise errors.TrialError("make_data_loaders(): the validation dataset is empty.")
        means = {
            name: workload_metrics.average_values([values[number] for values in sums])
            for number, name in enumerate(self._validation_names)
        }
        return base_trial.ValidationResult(means, num_inputs)

    def _validate_batches(self) -> tuple[list[list[Any]], int]:
        sums: list[list[Any]] = []
        num_inputs = 0
        while True:
            try:
                # Below the numbers of training steps, and another one for each batch.
                size, *values = self._run_validate(self._validation_handle, False, -1 - len(sums))
            except tf.errors.OutOfRangeError:
                return sums, num_inputs
            num_inputs += int(size)
            sums.append(values)

    def save(self, directory: str) -> None:
        """Writes variables, also local ones, the data position, and a SavedModel of the graph."""
        folder = pathlib.Path(literal_paths.directory(directory))
        with self._graph.as_default():
            self._saver.save(self._session, str(folder / _VARIABLES), write_meta_graph=False)
            self._local_variables.save(self._session, folder)
            if self._is_saved:
                self._save_position(folder)
            self._export(str(folder / _SAVED_MODEL))
        (folder / _STATE_FILE).write_text(json.dumps({"batches": self._batches}))

    def _export(self, directory: str) -> None:
        signature = v1.saved_model.signature_def_utils.predict_signature_def(
            graph_data.flatten(self._record) | {"is_training": self._is_training}, self._outputs
        )
        builder = v1.saved_model.Builder(directory)
        builder.add_meta_graph_and_variables(
            self._session,
            [v1.saved_model.tag_constants.SERVING],
            {_SIGNATURE: signature},
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
            clear_devices=True,
            # Without it each export adds operations to the graph, and takes longer than the last.
            saver=self._saver,
        )
        builder.save()

    def restore(self, directory: str, *, is_warm_start: bool) -> None:
        """Reads the state that `save` wrote."""
        folder = pathlib.Path(literal_paths.directory(directory))
        prefix = str(folder / _VARIABLES)
        with self._graph.as_default():
            graph_variables.check_fit(prefix, v1.global_variables())
            if is_warm_start:
                graph_variables.create_warm_saver().restore(self._session, prefix)
                return
            self._saver.restore(self._session, prefix)
            self._batches = json.loads((folder / _STATE_FILE).read_text())["batches"]
            self._local_variables.restore(self._session, folder)
            self._restore_position(folder)

    def close(self) -> None:
        """Closes the session."""
        background_calls.start(self._session.close)

    def _start_validation(self) -> concurrent.futures.Future[Any]:
        """Makes the validation data begin anew; training may go on meanwhile."""
        initializer = self._validation_iterator.initializer
        return background_calls.start(lambda: self._session.run(initializer))

    def _make_datasets(self) -> tuple[Any, Any]:
        config, hparams = self.context.get_experiment_config(), self.context.get_hparams()
        functions = self.context.functions
        make = functions.get("make_data_loaders") or getattr(self.trial, "make_data_loaders", None)
        if make is None:
            raise errors.TrialError(
                f"There is no function make_data_loaders(experiment_config, hparams) beside "
                f"{type(self.trial).__name__}."
            )
        pair = make(config, hparams)
        if not isinstance(pair, Sequence) or len(pair) != 2:
            raise errors.TrialError(
                f"make_data_loaders() returned {pair!r}, expected a pair of datasets: training "
                "and validation."
            )
        for dataset, use in zip(pair, ("training", "validation"), strict=True):
            if not isinstance(dataset, tf.compat.v2.data.Dataset):
                raise errors.TrialError(
                    f"make_data_loaders(): the {use} data are {dataset!r}, expected a batched "
                    "tf.data.Dataset."
                )
            data_faults.check_files(dataset)
        return pair[0], pair[1]

    def _build_outputs(self) -> dict[str, tf.Tensor]:
        outputs = self.trial.build_graph(self._record, self._is_training)
        if not isinstance(outputs, Mapping):
            raise errors.TrialError(
                f"{self._at('build_graph')} returned {outputs!r}, expected a dict of tensors."
            )
        outputs = {
            name: tf.sparse.to_dense(value)
            if isinstance(value, tf.SparseTensor)
            else tf.convert_to_tensor(value)
            for name, value in outputs.items()
        }
        if _LOSS not in outputs:
            raise errors.TrialError(
                f"{self._at('build_graph')} returned no tensor {_LOSS!r}. "
                + trial_context.describe_names(_LOSS, outputs)
            )
        if outputs[_LOSS].shape.rank not in (0, None):
            raise errors.TrialError(
                f"{self._at('build_graph')}: {_LOSS!r} has the shape {outputs[_LOSS].shape}, "
                "expected a scalar; take its mean."
            )
        return outputs

    def _build_train_op(self) -> tf.Operation:
        counter = self.trial.training_counter()
        optimizer = self.trial.optimizer()
        if not hasattr(optimizer, "compute_gradients"):
            raise errors.TrialError(
                f"{self._at('optimizer')} returned {optimizer!r}, expected a tf.train.Optimizer "
                "such as tf.train.AdamOptimizer(0.001)."
            )
        optimizer = gradient_sums.wrap(optimizer, self.context)
        with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
            gradients = optimizer.compute_gradients(self._outputs[_LOSS])
        if all(gradient is None for gradient, _ in gradients):
            raise errors.TrialError(
                f"{self._at('build_graph')}: {_LOSS!r} depends on no trainable variable."
            )
        return optimizer.apply_gradients(gradients, global_step=counter)

    def _check_names(self, method: str) -> list[str]:
        """Returns the names that a method lists, if they are those of tensors."""
        names = list(getattr(self.trial, method)())
        for name in names:
            if name not in self._outputs:
                raise errors.TrialError(
                    f"{self._at(method)} has {name!r}, which build_graph() does not return. "
                    + trial_context.describe_names(name, self._outputs)
                )
        if method == "training_metrics" and _LOSS in names:
            raise errors.TrialError(
                f"{self._at('training_metrics')} has {_LOSS!r}, which is always measured; leave "
                "it out."
            )
        return names

    def _at(self, method: str) -> str:
        return base_trial.describe_method(self.trial, method)

    def _open_session(self, config: Any) -> None:
        graph_data.limit_threads(config, self.context.spec.num_threads)
        self._session = v1.Session(graph=self._graph, config=config)
        self._session.run(
            [
                v1.global_variables_initializer(),
                v1.local_variables_initializer(),
                v1.tables_initializer(),
            ]
        )
        self._session.run(self._train_iterator.initializer)
        self._train_handle, self._validation_handle = self._session.run(
            [self._train_iterator.string_handle(), self._validation_iterator.string_handle()]
        )
        size = graph_data.batch_size(self._record)
        feeds = [self._handle, self._is_training, self._step]
        trained = [self._outputs[name] for name in self._train_names]
        validated = [self._outputs[name] for name in self._validation_names]
        self._run_train: Callable[..., list[Any]] = self._session.make_callable(
            [self._train_op, size, *trained], feeds
        )
        self._run_validate: Callable[..., list[Any]] = self._session.make_callable(
            [size, *validated], feeds
        )

    def _save_position(self, folder: pathlib.Path) -> None:
        try:
            self._iterator_saver.save(
                self._session, str(folder / _ITERATOR), write_meta_graph=False, write_state=False
            )
        except (tf.errors.OpError, ValueError) as error:
            self._is_saved = False
            logger.warning(
                "The position in the training data can't be saved (%s); going on from a "
                "checkpoint reads past the batches that were used.",
                str(error).splitlines()[0],
            )

    def _restore_position(self, folder: pathlib.Path) -> None:
        if (folder / f"{_ITERATOR}.index").exists():
            self._iterator_saver.restore(self._session, str(folder / _ITERATOR))
            return
        parts = tf.nest.flatten(self._record)
        skip = self._session.make_callable(
            parts[0].op if isinstance(parts[0], tf.Tensor) else parts, [self._handle]
        )
        for _ in range(self._batches):
            skip(self._train_handle)
