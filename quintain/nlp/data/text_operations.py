"""TensorFlow Text, loaded where text is first cut into tokens.

Importing `tensorflow_text` maps the libraries of all its operations, 4 MiB of memory each. What
programs of SentencePiece need is one of them; those whose data are ids need none.
"""

import functools
import importlib
import importlib.util
import pathlib
import uuid
from typing import Any

import tensorflow as tf

_PACKAGE = "tensorflow_text"


def __getattr__(name: str) -> Any:
    """Returns what `tensorflow_text` has by that name, and imports it for that."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PACKAGE), name)


class SentencePieces(tf.Module):
    """Cuts text into the pieces of a SentencePiece model, and puts it together again.

    The operations are those of `tensorflow_text.SentencepieceTokenizer`, in exports as well.
    """

    def __init__(self, model: bytes, *, add_eos: bool) -> None:
        """Loads a model; with `add_eos` each text ends in EOS."""
        super().__init__(name="sentence_pieces")
        self._add_eos = add_eos
        self._model_resource = _NamedModel(model)

    def tokenize(self, texts: tf.Tensor) -> tf.Tensor | tf.RaggedTensor:
        """Returns the ids `[N, L]` int32 of texts `[N]`; of a scalar text a plain tensor `[L]`."""
        texts = tf.convert_to_tensor(texts)
        ids, row_splits = self._run(_load_library().sentencepiece_tokenize_op, texts)
        if texts.shape.rank == 0:
            return ids
        return tf.RaggedTensor.from_row_splits(ids, row_splits, validate=False)

    def tokenize_with_offsets(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Returns the ids of texts `[N]`, and the bytes where they begin and end, all int32."""
        ids, row_splits, starts, ends = self._run(
            _load_library().sentencepiece_tokenize_with_offsets_op, texts
        )
        ragged = tf.RaggedTensor.from_row_splits(ids, row_splits, validate=False)
        offsets = (ragged.with_values(tf.cast(values, tf.int32)) for values in (starts, ends))
        return ragged, *offsets

    def _run(self, operation: Any, texts: tf.Tensor) -> Any:
        return operation(
            self._model_resource.resource_handle,
            tf.reshape(texts, [-1]),
            nbest_size=0,
            alpha=1.0,
            add_bos=False,
            add_eos=self._add_eos,
            reverse=False,
            out_type=tf.int32,
            return_nbest=False,
        )

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Returns the texts `[N]` of ids `[N, L]` int32."""
        return _load_library().sentencepiece_detokenize_op(
            self._model_resource.resource_handle,
            ids.values,
            ids.row_splits,
            add_bos=False,
            add_eos=self._add_eos,
            reverse=False,
        )


class _NamedModel(tf.saved_model.experimental.TrackableResource):
    """A model that lives in the runtime's table of resources, under a name of its own.

    As tensorflow-text 2.21 creates it, it belongs to the kernel of one operation, and is gone when
    `tf.random.set_seed` clears the kernels.
    """

    def __init__(self, model: bytes) -> None:
        super().__init__()
        self._model = model
        self._shared_name = f"sentencepiece_{uuid.uuid4().hex}"
        self.resource_handle  # noqa: B018 - Creates the resource.

    def _create_resource(self) -> tf.Tensor:
        return _load_library().sentencepiece_op(model=self._model, shared_name=self._shared_name)


@functools.cache
def _load_library() -> Any:
    """Returns the operations of SentencePiece, without importing the package around them."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No module named {_PACKAGE!r}", name=_PACKAGE)
    path = pathlib.Path(spec.origin).parent / "python" / "ops" / "_sentencepiece_tokenizer.so"
    return tf.load_op_library(str(path))
