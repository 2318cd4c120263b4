"""Decoding of a translator: native where possible, else by TensorFlow's operations."""

from typing import Any

import tensorflow as tf

from quintain.kernels import modes
from quintain.nlp.modeling import int8_weights
from quintain.nlp.modeling.ops import decoding, native_search
from quintain.serving import exported_model, search_pool


class Searches:
    """The searches of a model, each kept for the next sentences with the same options."""

    def __init__(self, model: Any, kernels: modes.KernelMode) -> None:
        """Stores the parts.

        Args:
            model: A `Seq2SeqTransformer`, or an `ExportedTranslation`.
            kernels: Whether native code may be used; where it can't be, it is not.
        """
        self._model = model
        self._is_export = isinstance(model, exported_model.ExportedTranslation)
        self._is_native = kernels is not modes.KernelMode.TENSORFLOW and not self._is_export
        self._graphs: dict[tuple[decoding.DecodingOptions, bool], Any] = {}
        self._pools: dict[decoding.DecodingOptions, search_pool.SearchPool | None] = {}
        self._weights: int8_weights.Int8Model | None = None

    def find_pool(self, options: decoding.DecodingOptions) -> search_pool.SearchPool | None:
        """Returns the native searches of some options; None where there are none."""
        if not self._is_native:
            return None
        if options not in self._pools:
            reason = native_search.find_reason(self._model, options)
            self._pools[options] = None if reason else search_pool.SearchPool(self._model, options)
        return self._pools[options]

    def get_graph(self, options: decoding.DecodingOptions, *, has_prefix: bool) -> Any:
        """Returns the graph of some options; one for all shapes, so that none is traced anew."""
        key = (options, has_prefix)
        if key not in self._graphs:
            ids = tf.TensorSpec([None, None], tf.int32)
            weights: dict[str, Any] = {}
            if options.precision == "int8" and not self._is_export:
                self._weights = self._weights or int8_weights.Int8Model(self._model)
                weights = {"weights": self._weights}

            def search(seed: tf.Tensor, source: tf.Tensor, prefix: Any = None) -> Any:
                return self._model.decode(source, options, prefix=prefix, seed=seed, **weights)

            signature = [tf.TensorSpec([2], tf.int32), ids, *([ids] if has_prefix else [])]
            self._graphs[key] = tf.function(search, input_signature=signature)
        return self._graphs[key]
