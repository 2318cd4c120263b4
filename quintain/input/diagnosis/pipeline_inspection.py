"""Inspection of `tf.data` pipelines: their operations, and how to restore a position.

There are two ways. A saved iterator of TensorFlow 2.21 goes on at once, but forgets two things: the
order that a shuffle has reached, once the shuffle has ended for this epoch and before a `repeat`
above it begins the next one; and whatever operations keep in themselves. Reading the batches again
from the beginning takes the time of reading, and is exact for every pipeline that gives the same
batches each time. A pipeline for which neither way is exact is found here before the first step.
"""

import dataclasses
import logging
import re
from collections.abc import Iterator
from typing import Any, Final

import tensorflow as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework import op_def_registry

SERVICE: Final = "tf.data service"
"""Stage whose batches other processes give."""

_SAVED: Final = frozenset({
    "Batch", "Concatenate", "Cache", "DirectedInterleave", "Filter", "FixedLengthRecord",
    "FlatMap", "GroupByWindow", "Interleave", "Map", "Options", "PaddedBatch", "ParallelBatch",
    "ParallelInterleave", "ParallelMap", "Prefetch", "Random", "Range", "Repeat",
    "Restructured", "Shard", "Shuffle", "Skip", "TFRecord", "Take", "TakeWhile", "Tensor",
    "TensorSlice", "TextLine", "Unbatch", "Window", "Zip",
})  # fmt: skip
"""Kinds that TensorFlow restores; see `tests/input/diagnosis/test_pipeline_inspection.py`."""

_REPEATABLE: Final = _SAVED | frozenset({
    "AssertCardinality", "CSV", "Csv", "DenseToRagged", "DenseToSparse", "DenseToSparseBatch",
    "GroupByReducer", "IgnoreErrors", "List", "MapAndBatch", "MatchingFiles", "ParseExample",
    "Rebatch", "Rewrite", "Scan", "ShuffleAndRepeat", "SparseTensorSlice", "Unique",
})  # fmt: skip
"""Kinds that give the same each time if what is before them does."""

_SEEDED: Final = ("Random", "Shuffle", "ShuffleAndRepeat")
_PARALLEL: Final = ("MapAndBatch", "Parallel", "ParseExample")
"""Beginnings of the names of kinds that work on several elements at once."""

_PYTHON: Final = frozenset({"PyFunc", "EagerPyFunc", "PyFuncStateless", "GeneratorDataset"})
_READS: Final = frozenset({"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableV2"})
_WRITES: Final = (
    "Assign", "Rng", "StatefulUniform", "StatefulTruncated", "StatefulStandard", "StatefulRandom",
    "ResourceScatter", "LookupTableInsert", "LookupTableRemove",
)  # fmt: skip
_DATASET: Final = re.compile(r"(\w+?)Dataset(V\d)?")
_HARMLESS: Final = frozenset({
    "Assert", "CheckNumerics", "CheckNumericsV2", "DummyMemoryCache", "DummySeedGenerator",
    "HashTableV2", "If", "LookupTableExportV2", "LookupTableFind", "LookupTableFindV2",
    "LookupTableSizeV2", "Placeholder", "Print", "PrintV2", "SentencepieceTokenizeOp",
    "StatefulPartitionedCall", "While",
    "_Arg", "_Retval",
})  # fmt: skip
"""Operations that TensorFlow calls stateful, and that give the same each time."""

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Inspection:
    """Restorability of the position in a pipeline."""

    unsaved: tuple[str, ...] = ()
    """Reasons why TensorFlow can't save an iterator of it exactly; empty if it can."""

    varying: tuple[str, ...] = ()
    """Reasons for other batches when it is read again, and what to change; empty if none."""

    @property
    def is_saved(self) -> bool:
        """True if a saved iterator goes on as the original does."""
        return not self.unsaved

    @property
    def is_exact(self) -> bool:
        """True if the position can be restored exactly, in one way or the other."""
        return not self.varying

    def warn(self, name: str = "the training data") -> None:
        """Warns if the position can't be restored exactly."""
        if self.varying:
            logger.warning(
                "The position in %s can't be restored exactly, so that a run which is stopped and "
                "resumed goes on with other batches than one that is not:\n%s",
                name,
                "\n".join(f"  - {reason}" for reason in self.varying),
            )


def inspect(data: Any) -> Inspection:
    """Looks through a pipeline, without reading from it.

    Args:
        data: A `tf.data.Dataset`, as it is iterated over, or a distributed one. Of anything else
            nothing is known.
    """
    datasets = getattr(data, "_datasets", None) or [getattr(data, "_original_dataset", data)]
    if not isinstance(datasets[0], tf.compat.v2.data.Dataset):
        return Inspection(
            ("it is no tf.data.Dataset",),
            (f"it comes from a {type(data).__name__}, which can't be inspected; a resumed run "
             "reads it again from its beginning.",),
        )  # fmt: skip
    walk = _Walk(datasets[0])
    if datasets[0] is not data:
        walk.unsaved.setdefault("it feeds several devices")
    return Inspection(tuple(walk.unsaved), tuple(walk.varying))


class _Walk:
    """Looks through the datasets of one pipeline, from its end to its sources.

    Attributes:
        unsaved: Reasons, in the order in which they were found, each once.
        varying: Likewise.
    """

    def __init__(self, root: Any) -> None:
        self.unsaved: dict[str, None] = {}
        self.varying: dict[str, None] = {}
        self._is_unordered = root.options().deterministic is False
        self._visits: dict[int, int] = {}
        self._visit(root, is_restarted=False, is_held=False)

    def _add(self, reason: str) -> None:
        """Adds what neither way restores."""
        self.unsaved.setdefault(reason)
        self.varying.setdefault(reason)

    def _visit(self, dataset: Any, *, is_restarted: bool, is_held: bool) -> None:
        """Notes what a dataset and all before it lose.

        Args:
            dataset: The dataset.
            is_restarted: Whether a `repeat` makes new iterators of it, and keeps none of its own
                from the end of one to the beginning of the next.
            is_held: Whether it is right below the first such `repeat`, which keeps its iterator.
        """
        inner = getattr(dataset, "_dataset", None) or getattr(dataset, "_impl", None)
        if inner is not None:  # a wrapper for TensorFlow 1, or a reader of several files
            self._visit(inner, is_restarted=is_restarted, is_held=is_held)
            return
        self._visits[id(dataset)] = self._visits.get(id(dataset), 0) + 1
        kind, name = _kind(dataset), f"`{stage_name(dataset)}`"
        self._check_kind(dataset, kind, name)
        self._check_seed(dataset, kind, name)
        if _is_reordered(dataset, kind):
            if is_restarted and not is_held:
                self.unsaved.setdefault(f"{name} is repeated")
            if self._visits[id(dataset)] > 1:
                self._add(
                    f"{name} is used twice, and which use comes first decides the order: shuffle "
                    "each use on its own."
                )
        self._check_order(dataset, kind, name)
        for wrapper in dataset._functions():
            self._check_function(wrapper.function, name, is_parallel=kind.startswith(_PARALLEL))
        repeats = kind == "Repeat" and tf.get_static_value(dataset._count) != 1
        for part in dataset._inputs():
            self._visit(
                part, is_restarted=is_restarted or repeats, is_held=repeats and not is_restarted
            )

    def _check_kind(self, dataset: Any, kind: str, name: str) -> None:
        if kind == "Variant":
            self._check_opaque(dataset)
            return
        if kind not in _SAVED or (kind == "Cache" and tf.get_static_value(dataset._filename)):
            self.unsaved.setdefault(f"{name} is of a kind that TensorFlow may not restore")
        if kind not in _REPEATABLE:
            self.varying.setdefault(
                f"{name} ({type(dataset).__name__}) is of an unknown kind, which may give other "
                "elements each time."
            )

    def _check_opaque(self, dataset: Any) -> None:
        """Looks through a dataset of which only TensorFlow knows what it is made of."""
        graph = serialize(dataset)
        for node in [] if graph is None else all_nodes(graph):
            if "Shuffle" in node.op:
                graph = None
                break
            self._check_node(node, "a choice of datasets", is_parallel=False)
        if graph is None:
            self._add(
                "a dataset was made of a variant tensor, which can't be inspected: pass the "
                "tf.data.Dataset itself."
            )

    def _check_seed(self, dataset: Any, kind: str, name: str) -> None:
        if kind not in _SEEDED or _has_global_seed():
            return
        seeds = [tf.get_static_value(part) for part in (dataset._seed, dataset._seed2)]
        if None not in seeds and not any(seeds):
            self._add(f"{name} has no seed: give it one, or set runtime.seed.")

    def _check_order(self, dataset: Any, kind: str, name: str) -> None:
        """Notes a dataset whose elements overtake each other."""
        if not kind.startswith(_PARALLEL) or kind == "MapAndBatch":  # Which keeps the order.
            return
        setting = _read_deterministic(dataset, kind)
        if setting == "false" or (setting == "default" and self._is_unordered):
            where = "" if setting == "false" else " (in the options of the dataset)"
            self.varying.setdefault(
                f"{name} gives elements in the order in which they get ready: leave "
                f"deterministic=False{where} out."
            )

    def _check_function(self, function: Any, name: str, *, is_parallel: bool) -> None:
        """Notes what a function of a dataset keeps, draws or calls."""
        graph = function.graph.as_graph_def()
        nodes = list(all_nodes(graph))
        is_parallel = is_parallel or any(node.op.startswith("Parallel") for node in nodes)
        for node in nodes:
            self._check_node(node, name, is_parallel=is_parallel)
        if any(part.dtype == tf.variant for part in function.captured_inputs):
            self._add(
                f"{name} uses a dataset that was made outside of its function, which can't be "
                "inspected: make it inside."
            )

    def _check_node(self, node: node_def_pb2.NodeDef, name: str, *, is_parallel: bool) -> None:
        if node.attr["deterministic"].s == b"false" or node.attr["sloppy"].b:
            self._add(
                f"{name} gives elements in the order in which they get ready: leave "
                "deterministic=False out."
            )
        if node.op in _PYTHON:
            self._add(
                f"{name} runs Python code, whose own state is not saved. It is run again from its "
                "beginning, which is exact only if it gives the same each time: let it draw no "
                "random numbers but from a generator that it seeds itself."
            )
        elif draws_statefully(node.op):
            self._check_draw(node, name, is_parallel=is_parallel)
        elif node.op.startswith(_WRITES):
            self._add(
                f"{name} changes a variable ({node.op}), as Keras' random layers and "
                "tf.random.Generator do, ahead of the training by as much as is prefetched: use "
                "the layer in the model, or tf.random.stateless_uniform and its like with a seed "
                "made of the element's number (Dataset.enumerate)."
            )
        elif node.op in _READS:
            self._add(
                f"{name} reads a variable, which must not change in training; capture its value "
                "(`variable.numpy()`) instead."
            )
        elif match := _DATASET.fullmatch(node.op):
            self._check_inner(match[1], name)
        elif node.op not in _HARMLESS and getattr(
            op_def_registry.get(node.op), "is_stateful", False
        ):
            self._add(f"{name} runs {node.op}, whose own state is not saved.")

    def _check_inner(self, kind: str, name: str) -> None:
        """Notes a dataset that a function makes."""
        if kind not in _SAVED or kind in ("Shuffle", "ShuffleAndRepeat", "Cache"):
            self.unsaved.setdefault(f"{name} makes a {kind}Dataset for each element")
        if kind not in _REPEATABLE:
            self.varying.setdefault(
                f"{name} makes a {kind}Dataset, which may give other elements each time."
            )
        if kind in _SEEDED and not _has_global_seed():
            self._add(f"{name} shuffles without a seed of the run: set runtime.seed.")

    def _check_draw(self, node: node_def_pb2.NodeDef, name: str, *, is_parallel: bool) -> None:
        self.unsaved.setdefault(f"{name} runs {node.op}")
        advice = (
            "use tf.random.stateless_uniform and its like with a seed made of the element's number "
            "(Dataset.enumerate)"
        )
        if is_parallel:
            self.varying.setdefault(
                f"{name} draws random numbers ({node.op}) for several elements at the same time: "
                f"{advice}, or leave num_parallel_calls out."
            )
        elif not (node.attr["seed"].i or node.attr["seed2"].i):
            self.varying.setdefault(
                f"{name} draws random numbers ({node.op}) without a seed: {advice}, or set "
                "runtime.seed."
            )


def draws_statefully(op: str) -> bool:
    """True if a kind of operation draws random numbers from a state that can't be saved."""
    definition = op_def_registry.get(op)
    if definition is None or not definition.is_stateful or "Queue" in op or "Dataset" in op:
        return False
    return {"seed", "seed2"} <= {attr.name for attr in definition.attr}


def _kind(dataset: Any) -> str:
    """Returns the name of a dataset's class without its ornaments."""
    return type(dataset).__name__.strip("_").removesuffix("V2").removesuffix("Dataset")


def _is_reordered(dataset: Any, kind: str) -> bool:
    """True if each iterator of a dataset gives another order than the one before."""
    if kind == "Shuffle":
        return dataset._reshuffle_each_iteration is not False
    return kind == "Random" and bool(dataset._rerandomize)


def _read_deterministic(dataset: Any, kind: str) -> str:
    """Returns `true`, `false` or `default`; what can't be read counts as `false`."""
    if hasattr(dataset, "_deterministic"):
        return str(dataset._deterministic)
    graph = serialize(dataset)
    nodes = [node for node in graph.node if node.op.startswith(kind)] if graph else []
    return nodes[-1].attr["deterministic"].s.decode() if nodes else "false"


def stage_name(dataset: Any) -> str:
    """Returns the name that a dataset was given, or the kind of dataset in words."""
    if getattr(dataset, "_name", None):
        return str(dataset._name)
    kind = type(dataset).__name__.strip("_").removesuffix("V2").removesuffix("V1")
    if kind.startswith("DataService"):
        return SERVICE
    kind = kind.removesuffix("Dataset").removeprefix("Parallel")
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in kind).strip()


def serialize(dataset: Any) -> graph_pb2.GraphDef | None:
    """Returns the graph of a dataset and all before it; None where there is none."""
    variant = dataset._variant_tensor
    if not tf.executing_eagerly():
        return variant.graph.as_graph_def()
    try:
        serialized = tf.raw_ops.DatasetToGraphV2(
            input_dataset=variant, external_state_policy=1, strip_device_assignment=True
        )
    except tf.errors.OpError:
        return None
    return graph_pb2.GraphDef.FromString(serialized.numpy())


def has_operation(dataset: Any, name: str) -> bool:
    """Returns whether a dataset, one before it, or a function of one is of a kind.

    Args:
        dataset: The dataset; it is not serialized, as what it holds in memory may be large.
        name: How the names of the kind begin.
    """
    if type(dataset).__name__.startswith(name):
        return True
    inner = getattr(dataset, "_dataset", None) or getattr(dataset, "_impl", None)
    if inner is not None:
        return has_operation(inner, name)
    graphs = [wrapper.function.graph.as_graph_def() for wrapper in dataset._functions()]
    if any(node.op.startswith(name) for graph in graphs for node in all_nodes(graph)):
        return True
    return any(has_operation(part, name) for part in dataset._inputs())


def all_nodes(graph: graph_pb2.GraphDef) -> Iterator[node_def_pb2.NodeDef]:
    """Yields the nodes of a graph and of its functions."""
    yield from graph.node
    for function in graph.library.function:
        yield from function.node_def


def _has_global_seed() -> bool:
    """True if operations without a seed get one that is the same in every process."""
    if tf.executing_eagerly():
        return context.global_seed() is not None
    return tf.compat.v1.get_default_graph().seed is not None
