"""Where the weights of our models are in checkpoints of the TensorFlow Model Garden.

The Garden keeps queries, keys and values apart and splits kernels by heads; here they lie side by
side in one matrix. Every weight of ours is one of theirs, or several joined along the last axis,
each reshaped.

Shapes:
    D  width of the model
    H  attention heads
    d  width of a head
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import keras

from quintain import errors
from quintain.nlp.modeling.layers import attention, cls_head, feed_forward, transformer
from quintain.nlp.modeling.models import bert_classifier, bert_pretrainer, seq2seq_transformer
from quintain.nlp.modeling.networks import encoder_scaffold

_ENCODER_ROOTS: Final = (
    "encoder",
    "model/encoder_network",
    "model/_network",
    "model/encoder",
    "model/layer_with_weights-0",
    "model",
    "",
)
"""Where an encoder may be: published, in a pretrainer, in a classifier, or by itself."""

_MAX_HEADS: Final = 16
"""Classifiers of a pretrainer among which one is looked for by its name."""

_PROJECTIONS: Final = ("_query_dense", "_key_dense", "_value_dense")


@dataclasses.dataclass(frozen=True)
class Weight:
    """One of our weights, and those of the reference that it is made of."""

    variable: keras.Variable
    """Ours."""

    name: str
    """What reports call it."""

    sources: tuple[str, ...]
    """Paths of theirs below the root of the part; joined along the last axis."""

    source_shape: tuple[int, ...]
    """Shape of each of theirs."""

    @property
    def reshaped(self) -> tuple[int, ...]:
        """Shape of each of theirs before they are joined."""
        *first, last = self.variable.shape
        return (*first, last // len(self.sources))


@dataclasses.dataclass(frozen=True)
class Layout:
    """One way in which the reference stores a part of a model."""

    root: str
    """Path of the part in the checkpoint; empty for the checkpoint itself."""

    weights: tuple[Weight, ...]
    """All weights of the part."""


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a model that is loaded as a whole, or not at all."""

    name: str
    """Its name in reports."""

    layouts: tuple[Layout, ...]
    """The ways in which the reference stores it, the likeliest first."""

    dense_name: str | None = None
    """Path by which the reference names the dense layer of a classifier, whose place alone does
    not tell which one it is."""

    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What the part computes with and no weight tells, by paths below `task.model`."""


def list_parts(model: keras.Model) -> list[Part]:
    """Returns the parts of a model, and how the reference stores each.

    Args:
        model: A built translation model, pretrainer or classifier.

    Raises:
        CheckpointError: If it is of another kind, or has parts that the reference does not have.
    """
    if isinstance(model, seq2seq_transformer.Seq2SeqTransformer):
        return [_map_translation(model)]
    if isinstance(model, bert_pretrainer.BertPretrainer):
        heads = enumerate(model.head_layers.values())
        return [
            map_encoder(model.encoder),
            _map_words(model),
            *(_map_head(head, _list_head_roots(index)) for index, head in heads),
        ]
    if isinstance(model, bert_classifier.BertClassifier):
        return [map_encoder(model.encoder), _map_head(model.classifier, ["model/classifier"])]
    raise errors.CheckpointError(
        f"got a model of type {type(model).__name__}; of the reference's checkpoints only those of "
        "BERT (encoder, pretrainer, classifier) and of the translation Transformer can be read."
    )


def map_encoder(encoder: keras.Model) -> Part:
    """Returns how the reference stores a BERT encoder.

    Raises:
        CheckpointError: If it is not made of the blocks of BERT.
    """
    if type(encoder) is not encoder_scaffold.EncoderScaffold:
        raise errors.CheckpointError(
            f"got an encoder of type {type(encoder).__name__}; of the reference's checkpoints only "
            "those of BERT encoders can be read (task.model.encoder.type: bert)."
        )
    names = {
        "word": "_embedding_layer",
        "position": "_position_embedding_layer",
        "type": "_type_embedding_layer",
        "norm": "_embedding_norm_layer",
        "block": "_transformer_layers/{}",
        "pooler": "_pooler_layer",
    }
    count = len(encoder.blocks)
    numbers = {"word": 0, "position": 1, "type": 2, "norm": 3, "pooler": 4 + count}
    numbered = {key: f"layer_with_weights-{number}" for key, number in numbers.items()}
    blocks = [f"layer_with_weights-{4 + index}" for index in range(count)]
    places = [names["block"].format(index) for index in range(count)]
    named = tuple(_map_encoder_weights(encoder, names, places))
    functional = tuple(_map_encoder_weights(encoder, numbered, blocks))
    layouts = (Layout(root, weights) for root in _ENCODER_ROOTS for weights in (named, functional))
    settings = {
        "encoder.bert.norm_first": encoder.blocks[0].norm_first,
        "encoder.bert.hidden_activation": encoder.hidden_activation,
    }
    return Part("encoder", tuple(layouts), settings=settings)


def _map_encoder_weights(
    encoder: Any, names: dict[str, str], blocks: Sequence[str]
) -> Iterator[Weight]:
    tables = {"word": "word_table", "position": "position_table", "type": "type_table"}
    for key, attribute in tables.items():
        table = getattr(encoder, attribute)
        yield _plain(table, f"encoder.{attribute}", f"{names[key]}/embeddings")
    yield from _map_norm(encoder.embedding_norm, "encoder.embedding_norm", names["norm"])
    for block, path in zip(encoder.blocks, blocks, strict=True):
        yield from _map_scaffold(block, f"encoder.{block.name}", path)
    yield from _map_dense(encoder.pooler, "encoder.pooler", names["pooler"])


def _map_scaffold(block: Any, name: str, path: str) -> Iterator[Weight]:
    parts = (getattr(block, "self_attention", None), getattr(block, "feed_forward", None))
    wanted = (attention.SelfAttention, feed_forward.FeedForward)
    if type(block) is not transformer.Transformer or tuple(map(type, parts)) != wanted:
        raise errors.CheckpointError(
            f"{name} is made of {', '.join(type(part).__name__ for part in (block, *parts))}; of "
            "the reference's checkpoints only those of BERT's own blocks can be read "
            "(SelfAttention and FeedForward)."
        )
    yield from _map_block(block, name, path)


def _map_block(block: Any, name: str, path: str) -> Iterator[Weight]:
    """Yields the weights of a block of the reference's encoders."""
    label = f"{name}.self_attention"
    yield from _map_self_attention(block.self_attention, label, f"{path}/_attention_layer")
    yield from _map_norm(
        block.self_attention_norm, f"{label}_norm", f"{path}/_attention_layer_norm"
    )
    yield from _map_feed_forward(block, name, path, "_")


def _map_feed_forward(block: Any, name: str, path: str, prefix: str) -> Iterator[Weight]:
    expand, contract = block.feed_forward.expand, block.feed_forward.contract
    label = f"{name}.feed_forward"
    yield from _map_dense(expand, f"{label}.expand", f"{path}/{prefix}intermediate_dense")
    yield from _map_dense(contract, f"{label}.contract", f"{path}/{prefix}output_dense")
    yield from _map_norm(
        block.feed_forward_norm, f"{label}_norm", f"{path}/{prefix}output_layer_norm"
    )


def _map_self_attention(layer: attention.SelfAttention, name: str, path: str) -> Iterator[Weight]:
    sources = [f"{path}/{one}" for one in _PROJECTIONS]
    heads = layer.num_heads
    yield from _split_heads(layer.query_key_value, f"{name}.query_key_value", sources, heads)
    yield from _join_heads(layer, name, path)


def _map_cross_attention(layer: attention.CrossAttention, name: str, path: str) -> Iterator[Weight]:
    query, *others = [f"{path}/{one}" for one in _PROJECTIONS]
    yield from _split_heads(layer.query, f"{name}.query", [query], layer.num_heads)
    yield from _split_heads(layer.key_value, f"{name}.key_value", others, layer.num_heads)
    yield from _join_heads(layer, name, path)


def _split_heads(layer: Any, name: str, paths: Sequence[str], heads: int) -> Iterator[Weight]:
    """Yields kernel `[D, H, d]` and bias `[H, d]` of projections that lie side by side here."""
    head = (heads, layer.width // heads)
    kernels = tuple(f"{path}/kernel" for path in paths)
    yield Weight(layer.kernel, f"{name}.kernel", kernels, (int(layer.kernel.shape[0]), *head))
    if layer.bias is not None:
        biases = tuple(f"{path}/bias" for path in paths)
        yield Weight(layer.bias, f"{name}.bias", biases, head)


def _join_heads(layer: Any, name: str, path: str) -> Iterator[Weight]:
    """Yields kernel `[H, d, D]` and bias `[D]` of the projection after attention."""
    projection, label = layer.output_projection, f"{name}.output_projection"
    shape = (layer.num_heads, layer.width // layer.num_heads, layer.width)
    yield Weight(projection.kernel, f"{label}.kernel", (f"{path}/_output_dense/kernel",), shape)
    if projection.bias is not None:
        yield _plain(projection.bias, f"{label}.bias", f"{path}/_output_dense/bias")


def _map_dense(layer: Any, name: str, path: str) -> Iterator[Weight]:
    yield _plain(layer.kernel, f"{name}.kernel", f"{path}/kernel")
    yield _plain(layer.bias, f"{name}.bias", f"{path}/bias")


def _map_norm(layer: Any, name: str, path: str) -> Iterator[Weight]:
    yield _plain(layer.gamma, f"{name}.gamma", f"{path}/gamma")
    yield _plain(layer.beta, f"{name}.beta", f"{path}/beta")


def _plain(variable: keras.Variable, name: str, path: str) -> Weight:
    return Weight(variable, name, (path,), tuple(variable.shape))


def _map_words(model: bert_pretrainer.BertPretrainer) -> Part:
    """Returns how the reference stores the head for masked words."""
    weights = (
        *_map_dense(model.transform, "transform", "dense"),
        *_map_norm(model.transform_norm, "transform_norm", "layer_norm"),
        _plain(model.output_bias, "output_bias", "bias"),
    )
    roots = ("masked_lm", "model/masked_lm")
    return Part("masked_lm", tuple(Layout(root, weights) for root in roots))


def _list_head_roots(index: int) -> list[str]:
    """Returns where a pretrainer's classifier may be, the same place as in our model first."""
    places = [index, *(place for place in range(_MAX_HEADS) if place != index)]
    return [f"model/classification_heads/{place}" for place in places]


def _map_head(head: cls_head.ClassificationHead, roots: Sequence[str]) -> Part:
    """Returns how the reference stores a classifier, which may be at any of the roots."""
    name = head.name
    output = _map_dense(head.out_proj, f"{name}.out_proj", "out_proj")
    dense = () if head.dense is None else _map_dense(head.dense, f"{name}.dense", "dense")
    weights = (*dense, *output)
    return Part(name, tuple(Layout(root, weights) for root in roots), f"{name}.pooler_dense")


def map_pooler_dense(layer: keras.layers.Dense, name: str) -> Part:
    """Returns how the reference stores the dense layer of a classifier, by the classifier's name.

    Args:
        layer: The dense layer.
        name: Name of the classifier, then `.pooler_dense`.
    """
    return Part(name, (Layout(name, tuple(_map_dense(layer, name, ""))),))


def _map_translation(model: seq2seq_transformer.Seq2SeqTransformer) -> Part:
    """Returns how the reference stores a translation model."""
    _check_translation(model)
    weights = tuple(_map_translation_weights(model))
    settings: dict[str, Any] = {}
    for side in ("encoder", "decoder"):
        arguments = getattr(model, side).block_arguments
        for name in ("norm_first", "norm_epsilon", "activation"):
            settings[f"{side}.{name}"] = arguments[name]
    return Part("model", (Layout("model", weights), Layout("", weights)), settings=settings)


def _check_translation(model: Any) -> None:
    """Checks that a model computes what the reference's does with the same weights."""
    problems = []
    if model.target_embedding is not None:
        problems.append("task.share_vocabulary: got false; the reference has one vocabulary")
    if model.position_repeats != 1:
        problems.append(f"task.model.position_repeats: got {model.position_repeats}, expected 1")
    for side in ("encoder", "decoder"):
        if getattr(model, side).output_norm is None:
            problems.append(
                f"task.model.{side}.norm_first: got false; the reference normalises the output of "
                "such a stack once more, which ours does not"
            )
    if not model.embed_start:
        problems.append(
            "task.model.embed_start: got false; the reference's targets start with the embedding "
            "of id 0. Set it to true"
        )
    if problems:
        lines = "".join(f"\n  {line}" for line in problems)
        raise errors.CheckpointError(f"the model differs from the reference's:{lines}")


def _map_translation_weights(model: Any) -> Iterator[Weight]:
    yield _plain(model.embedding, "embedding", "embedding_lookup/embeddings")
    for side in ("encoder", "decoder"):
        stack = getattr(model, side)
        for index, block in enumerate(stack.blocks):
            name = f"{side}.{block.name}"
            path = f"{side}_layer/{side}_layers/{index}"
            map_fn: Callable[..., Iterator[Weight]] = (
                _map_block if side == "encoder" else _map_translation_decoder
            )
            yield from map_fn(block, name, path)
        path = f"{side}_layer/output_normalization"
        yield from _map_norm(stack.output_norm, f"{side}.output_norm", path)


def _map_translation_decoder(block: Any, name: str, path: str) -> Iterator[Weight]:
    label = f"{name}.self_attention"
    yield from _map_self_attention(block.self_attention, label, f"{path}/self_attention")
    yield from _map_norm(
        block.self_attention_norm, f"{label}_norm", f"{path}/self_attention_layer_norm"
    )
    label = f"{name}.cross_attention"
    yield from _map_cross_attention(block.cross_attention, label, f"{path}/encdec_attention")
    yield from _map_norm(
        block.cross_attention_norm, f"{label}_norm", f"{path}/encdec_attention_layer_norm"
    )
    yield from _map_feed_forward(block, name, path, "")
