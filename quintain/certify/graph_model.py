"""A model of TensorFlow 1: an Estimator, its `model_fn`, or a function that builds a graph."""

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from quintain.certify import dropout_switch

_V1: Final[Any] = tf.compat.v1


@dataclasses.dataclass
class _Graph:
    """A graph that is built, and its session."""

    graph: Any
    session: Any
    inputs: list[Any]
    predictions: list[tuple[str, Any]]
    loss: Any
    train_op: Any
    variables: list[Any]
    """Those of the model, without those of optimizers and steps."""

    gradients: list[Any]
    penalty: Any
    forward: list[Any]
    """Tensors of the forward pass, in the order in which they were built."""

    rates: list[float]

    def feed(self, batch: Any) -> dict[Any, Any]:
        """Returns a batch by placeholders."""
        arrays = [one for one in tf.nest.flatten(tuple(batch)) if one is not None]
        return dict(zip(self.inputs, arrays, strict=True))


class GraphModel:
    """The graphs of a function for training and for evaluation."""

    def __init__(
        self, function: Callable[..., Any], estimators: Any, batches: Sequence[Any]
    ) -> None:
        """Builds the graphs."""
        self._model_fn = _find_model_fn(function, estimators)
        self._modes = estimators.ModeKeys
        self._example = batches[0]
        self._graphs: dict[tuple[bool, bool, int], _Graph] = {}
        self._values = self.get_values()

    def describe(self) -> dict[str, Any]:
        """Returns variables; settings can't be read from a graph."""
        graph = self._get(is_training=True)
        trainable = set(graph.graph.get_collection(_V1.GraphKeys.TRAINABLE_VARIABLES))
        trainable_names = {one.name for one in trainable}
        weights = [
            {
                "name": one.name.removesuffix(":0"),
                "shape": tuple(one.shape.as_list()),
                "is_trainable": one.name in trainable_names,
                "layer": -1,
            }
            for one in graph.variables
        ]
        return {"weights": weights, "layers": [], "optimizer": {}, "loss": {}}

    def get_values(self, seed: int | None = None) -> list[np.ndarray]:
        """Returns the values of variables as they are initialised."""
        graph = self._get(is_training=True, seed=seed or 0)
        self._initialise(graph)
        return list(graph.session.run(graph.variables))

    def set_values(self, values: Sequence[np.ndarray]) -> None:
        """Sets the values at which every comparison begins."""
        self._values = list(values)

    def outputs(self, batch: Any, is_training: bool) -> dict[str, Any]:
        """Returns predictions, all tensors of the forward pass, and rates of dropout."""
        graph = self._get(is_training=is_training)
        self._restore(graph)
        names = [name for name, _ in graph.predictions]
        fetched = ([one for _, one in graph.predictions], graph.forward)
        outputs, forward = graph.session.run(fetched, graph.feed(batch))
        layers = [(one.op.name, value) for one, value in zip(graph.forward, forward, strict=True)]
        found = [(n, one) for n, one in zip(names, outputs, strict=True) if one.dtype.kind == "f"]
        return {"outputs": found, "layers": layers, "rates": graph.rates}

    def steps(self, batches: Sequence[Any]) -> list[dict[str, Any]]:
        """Returns loss, penalty, gradients and variables of each step; dropout is off."""
        graph = self._get(is_training=True)
        self._restore(graph)
        found = []
        for batch in batches:
            # The gradients are those before the update, which may run first.
            feed = graph.feed(batch)
            shown = [one for one in graph.gradients if one is not None]
            penalty, loss, values = graph.session.run((graph.penalty, graph.loss, shown), feed)
            graph.session.run(graph.train_op, feed)
            rest = iter(values)
            gradients = [None if one is None else next(rest) for one in graph.gradients]
            step = {"loss": float(loss), "penalty": float(penalty), "gradients": gradients}
            values = list(graph.session.run(graph.variables))
            found.append({**step, "values": values, "rates": graph.rates})
        return found

    def train(self, batches: Sequence[Any], order: Sequence[int], seed: int) -> float:
        """Returns the mean loss of all batches after training with dropout."""
        graph = self._get(is_training=True, has_dropout=True, seed=seed)
        self._restore(graph)
        for number in order:
            graph.session.run(graph.train_op, graph.feed(batches[number]))
        trained = graph.session.run(graph.variables)
        evaluated = self._get(is_training=False)
        self._restore(evaluated, trained)
        sizes = [len(tf.nest.flatten(tuple(batch))[0]) for batch in batches]
        losses = [evaluated.session.run(evaluated.loss, evaluated.feed(one)) for one in batches]
        return float(np.average(losses, weights=sizes))

    def _get(self, *, is_training: bool, has_dropout: bool = False, seed: int = 0) -> _Graph:
        key = (is_training, has_dropout, seed)
        if key not in self._graphs:
            self._graphs[key] = self._make(*key)
        return self._graphs[key]

    def _make(self, is_training: bool, has_dropout: bool, seed: int) -> _Graph:
        with tf.Graph().as_default() as graph:
            _V1.set_random_seed(seed)
            x, y, _ = parts = tf.nest.map_structure(_make_placeholder, tuple(self._example))
            with dropout_switch.dropout_off(is_off=not has_dropout) as rates:
                mode = self._modes.TRAIN if is_training else self._modes.EVAL
                _V1.train.get_or_create_global_step()
                spec = self._model_fn(x, y, mode)
            variables = [one for one in _find_model_variables(graph) if one.dtype.is_floating]
            trainable = {id(one) for one in _V1.trainable_variables()}
            shown = [one for one in variables if id(one) in trainable]
            gradients = dict(zip(map(id, shown), tf.gradients(spec.loss, shown), strict=True))
            dense = [gradients.get(id(one)) for one in variables]
            dense = [None if one is None else tf.convert_to_tensor(one) for one in dense]
            penalty = tf.add_n([tf.constant(0.0), *_V1.losses.get_regularization_losses()])
            session = _V1.Session(graph=graph)
            inputs = [one for one in tf.nest.flatten(parts) if one is not None]
            found = _Graph(
                graph, session, inputs, _list_predictions(spec.predictions), spec.loss,
                spec.train_op, variables, dense, penalty, _find_forward(graph, inputs, spec.loss),
                rates,
            )  # fmt: skip
            self._initialise(found)
        return found

    def _initialise(self, graph: _Graph) -> None:
        with graph.graph.as_default():
            collected = graph.graph.get_collection("certify_initializers")
            if not collected:
                collected = [
                    tf.group(_V1.global_variables_initializer(), _V1.local_variables_initializer()),
                    _V1.tables_initializer(),
                ]
                for one in collected:
                    graph.graph.add_to_collection("certify_initializers", one)
        for one in collected:
            graph.session.run(one)

    def _restore(self, graph: _Graph, values: Sequence[np.ndarray] | None = None) -> None:
        self._initialise(graph)
        for one, value in zip(graph.variables, values or self._values, strict=True):
            one.load(value, graph.session)


@dataclasses.dataclass
class _Spec:
    """Tensors that a function has returned."""

    predictions: Any
    loss: Any
    train_op: Any


def _find_model_fn(function: Callable[..., Any], estimators: Any) -> Callable[[Any, Any, str], Any]:
    """Returns a function of features, labels and mode."""
    names = inspect.signature(function).parameters
    if "features" not in names:
        estimator = function()
        if not isinstance(estimator, estimators.Estimator):
            kind = type(estimator).__name__
            raise TypeError(f"the function returned {kind}, expected a tf.estimator.Estimator")
        return lambda x, y, mode: estimator.model_fn(x, y, mode, estimator.config)

    def call(x: Any, y: Any, mode: str) -> Any:
        is_training = mode == estimators.ModeKeys.TRAIN
        offered = {
            "features": x, "labels": y, "mode": mode, "params": {}, "config": None,
            "is_training": is_training, "training": is_training,
        }  # fmt: skip
        return _to_spec(
            function(
                **{name: value for name, value in offered.items() if name in names
                   and (name != "params" or names[name].default is inspect.Parameter.empty)}
            )
        )  # fmt: skip

    return call


def _to_spec(found: Any) -> Any:
    if isinstance(found, dict):
        return _Spec(found.get("predictions"), found.get("loss"), found.get("train_op"))
    if isinstance(found, tuple) and not hasattr(found, "train_op"):
        if len(found) not in (2, 3):
            raise TypeError(
                f"expected (loss, train_op) or (predictions, loss, train_op), got {len(found)}"
            )
        return _Spec(*(None, *found)[-3:])
    if not hasattr(found, "train_op"):
        raise TypeError(f"expected an EstimatorSpec, a dict or a tuple, got {type(found).__name__}")
    return found


def _make_placeholder(array: Any) -> Any:
    if array is None:
        return None
    return _V1.placeholder(tf.as_dtype(array.dtype), (None, *array.shape[1:]))


def _list_predictions(predictions: Any) -> list[tuple[str, Any]]:
    if isinstance(predictions, dict):
        return sorted(predictions.items())
    return [("", one) for one in tf.nest.flatten(predictions) if one is not None]


def _find_model_variables(graph: Any) -> list[Any]:
    """Returns variables that are trained, and moving averages; no slots of an optimizer."""
    everything = graph.get_collection(_V1.GraphKeys.GLOBAL_VARIABLES)
    trainable = {one.op.name for one in graph.get_collection(_V1.GraphKeys.TRAINABLE_VARIABLES)}
    moving = ("moving_mean", "moving_variance")
    return [
        one
        for one in everything
        if one.op.name in trainable or one.op.name.rpartition("/")[2] in moving
    ]


def _find_forward(graph: Any, inputs: Sequence[Any], loss: Any) -> list[Any]:
    """Returns the float tensors between the inputs and the loss."""
    seen: set[str] = set()
    waiting = [loss.op]
    while waiting:
        op = waiting.pop()
        if op.name not in seen:
            seen.add(op.name)
            waiting.extend(one.op for one in op.inputs)
    depends = {one.op.name for one in inputs}
    found = []
    for op in graph.get_operations():
        if op.name in depends or any(one.op.name in depends for one in op.inputs):
            depends.add(op.name)
            if op.name in seen and op._get_control_flow_context() is None:
                # Kernels of a normalisation leave outputs that nobody reads unset.
                found += [
                    one
                    for one in op.outputs
                    if one.dtype == tf.float32
                    and one.shape.rank
                    and any(other.name in seen for other in one.consumers())
                ]
    return found
