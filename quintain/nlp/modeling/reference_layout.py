"""Checkpoint layout of the TensorFlow Model Garden, mapped to our models."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import keras

from quintain import errors
from quintain.nlp.modeling import activations, models, networks
from quintain.nlp.modeling.reference_weights import (
    Weight,
    map_decoder_block,
    map_dense,
    map_encoder_block,
    map_norm,
    map_plain,
)

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

_EMBEDDINGS: Final = (
    "_embedding_layer",
    "_position_embedding_layer",
    "_type_embedding_layer",
    "_embedding_norm_layer",
    "_embedding_projection",
)
"""Attributes of encoders, the same as the reference's, in the order of its layers."""


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
    """What the part computes with and no weight tells, by paths below `task.model`. A step `*` is
    the sub-config that `type` beside it chooses."""


def list_parts(model: keras.Model) -> list[Part]:
    """Returns the parts of a model, and how the reference stores each.

    Raises:
        CheckpointError: If it is of another kind, or has parts that the reference does not have.
    """
    if isinstance(model, models.Seq2SeqTransformer):
        return [_map_translation(model)]
    if isinstance(model, models.BertPretrainerV2):
        heads = enumerate(model.classification_heads)
        return [
            map_encoder(model.encoder_network),
            _map_words(model.masked_lm),
            *(_map_head(head, _list_head_roots(index)) for index, head in heads),
        ]
    if isinstance(model, models.BertClassifier):
        return [map_encoder(model.encoder), _map_head(model.classifier, ["model/classifier"])]
    if isinstance(model, models.BertPretrainer):
        head = _map_network(model.classification, "classification")
        return [map_encoder(model.encoder), _map_words(model.masked_lm), head]
    if isinstance(model, models.BertTokenClassifier):
        dense = tuple(map_dense(model.classifier, "classifier", ""))
        layout = Layout("model/classifier", dense)
        return [map_encoder(model.encoder), Part("classifier", (layout,))]
    if isinstance(model, models.BertSpanLabeler):
        return [map_encoder(model.encoder), _map_network(model.span_labeling, "span_labeling")]
    raise errors.CheckpointError(
        f"got a model of type {type(model).__name__}; of the reference's checkpoints only those of "
        "BERT (encoder, pretrainer, classifier) and of the translation Transformer can be read."
    )


def map_encoder(encoder: Any) -> Part:
    """Returns how the reference stores an encoder.

    Raises:
        CheckpointError: If it is not made of the blocks of BERT.
    """
    is_known = isinstance(encoder, networks.TextEncoder)
    if not is_known or getattr(encoder, "_embedding_network", None) is not None:
        raise errors.CheckpointError(
            f"got an encoder of type {type(encoder).__name__}; of the reference's checkpoints only "
            "those of its BERT, ALBERT and FNet can be read (task.model.encoder.type)."
        )
    is_scaffold = isinstance(encoder, networks.EncoderScaffold)
    blocks = list(dict.fromkeys(encoder.transformer_layers))  # ALBERT has the same one many times.
    stack = "_hidden_layers" if is_scaffold else "_transformer_layers"
    before = [name for name in _EMBEDDINGS if getattr(encoder, name, None) is not None]
    names = [*before, *(f"{stack}/{index}" for index in range(len(blocks))), "_pooler_layer"]
    # Where a model is one of Keras' functional ones, its layers may have numbers only.
    numbers = [f"layer_with_weights-{index}" for index in range(len(names))]
    named, numbered = (
        tuple(_map_encoder_weights(encoder, blocks, paths)) for paths in (names, numbers)
    )
    layouts = (Layout(root, weights) for root in _ENCODER_ROOTS for weights in (named, numbered))
    return Part("encoder", tuple(layouts), settings=_list_settings(encoder))


def _map_encoder_weights(
    encoder: Any, blocks: Sequence[Any], paths: Sequence[str]
) -> Iterator[Weight]:
    words, positions, types, norm, *others, pooler = paths
    for layer, path in (
        (encoder._embedding_layer, words),
        (encoder._position_embedding_layer, positions),
        (encoder._type_embedding_layer, types),
    ):
        name = f"encoder.{layer.name}"
        if len(layer.weights) != 1:
            raise errors.CheckpointError(
                f"{name} is a {type(layer).__name__}; of the reference's checkpoints only those "
                "with one matrix of embeddings can be read."
            )
        yield map_plain(layer.embeddings, name, f"{path}/embeddings")
    yield from map_norm(encoder._embedding_norm_layer, "encoder.embedding_norm", norm)
    if len(others) > len(blocks):
        projection, *others = others
        layer = encoder._embedding_projection
        yield from map_dense(layer, "encoder.embedding_projection", projection)
    for block, path in zip(blocks, others, strict=True):
        yield from map_encoder_block(block, f"encoder.{block.name}", path)
    yield from map_dense(encoder.pooler_layer, "encoder.pooler", pooler)


def _list_settings(encoder: Any) -> dict[str, Any]:
    """Returns what an encoder computes with and no weight tells."""
    if not encoder.transformer_layers:
        return {}
    block = encoder.transformer_layers[0]
    field = "inner_activation" if isinstance(encoder, networks.FNet) else "hidden_activation"
    settings = {f"encoder.*.{field}": activations.get_name(block.feed_forward.activation)}
    if not isinstance(encoder, networks.AlbertEncoder):
        settings["encoder.*.norm_first"] = block.norm_first
    return settings


def _map_words(layer: Any) -> Part:
    weights = (
        *map_dense(layer.dense, "masked_lm.dense", "dense"),
        *map_norm(layer.layer_norm, "masked_lm.layer_norm", "layer_norm"),
        map_plain(layer.bias, "masked_lm.bias", "bias"),
    )
    roots = ("masked_lm", "model/masked_lm")
    return Part("masked_lm", tuple(Layout(root, weights) for root in roots))


def _list_head_roots(index: int) -> list[str]:
    """Returns where a pretrainer's classifier may be, the same place as in our model first."""
    places = [index, *(place for place in range(_MAX_HEADS) if place != index)]
    return [f"model/classification_heads/{place}" for place in places]


def _map_head(head: Any, roots: Sequence[str]) -> Part:
    name = head.name
    output = map_dense(head.out_proj, f"{name}.out_proj", "out_proj")
    dense = map_dense(head.dense, f"{name}.dense", "dense") if head.inner_dim else ()
    weights = (*dense, *output)
    return Part(name, tuple(Layout(root, weights) for root in roots), f"{name}.pooler_dense")


def _map_network(network: keras.Model, name: str) -> Part:
    dense = network.get_layer("predictions_transform_logits")
    weights = tuple(map_dense(dense, name, "layer_with_weights-0"))
    return Part(name, (Layout(f"model/{name}", weights),))


def map_pooler_dense(layer: keras.layers.Dense, name: str) -> Part:
    """Returns how the reference stores the dense layer of a classifier, by the classifier's name.

    Args:
        layer: The dense layer.
        name: Name of the classifier, then `.pooler_dense`.
    """
    return Part(name, (Layout(name, tuple(map_dense(layer, name, ""))),))


def _map_translation(model: models.Seq2SeqTransformer) -> Part:
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
    if not model.embed_start:
        problems.append(
            "task.model.embed_start: got false; the reference's targets start with the embedding "
            "of id 0. Set it to true"
        )
    if problems:
        lines = "".join(f"\n  {line}" for line in problems)
        raise errors.CheckpointError(f"the model differs from the reference's:{lines}")


def _map_translation_weights(model: Any) -> Iterator[Weight]:
    yield map_plain(model.embedding, "embedding", "embedding_lookup/embeddings")
    map_fns: dict[str, Callable[..., Iterator[Weight]]] = {
        "encoder": map_encoder_block,
        "decoder": map_decoder_block,
    }
    for side, map_fn in map_fns.items():
        stack = getattr(model, side)
        for index, block in enumerate(stack.blocks):
            path = f"{side}_layer/{side}_layers/{index}"
            yield from map_fn(block, f"{side}.{block.name}", path)
        path = f"{side}_layer/output_normalization"
        yield from map_norm(stack.output_normalization, f"{side}.output_normalization", path)
