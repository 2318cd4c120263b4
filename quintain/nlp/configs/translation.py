"""Configs of translation: the model, its decoding, its data and its vocabularies."""

import dataclasses
from collections.abc import Iterator
from typing import Annotated

from annotated_types import Ge, Gt, Lt
from typing_extensions import override

from quintain.config import base_config
from quintain.nlp.data import wmt_dataloader
from quintain.nlp.modeling import activations
from quintain.optimization.configs import ranges
from quintain.settings import config_definitions as cfg

Probability = ranges.Fraction


@dataclasses.dataclass
class EncDecoder(base_config.Config):
    """Shape of the encoder or of the decoder."""

    num_layers: ranges.Size = 6
    """Transformer blocks."""

    num_attention_heads: ranges.Size = 8
    """Attention heads of each block. Must divide `embedding_width`."""

    intermediate_size: ranges.Size = 2048
    """Width of the feed-forward layer between its two projections."""

    activation: activations.FeedForwardName = "relu"
    """Activation of the feed-forward layer. Gated ones, `swiglu` and `glu`, have twice the weights
    of `intermediate_size` in the first projection: two thirds of the size cost the same."""

    dropout_rate: Probability = 0.1
    """Dropout after attention and after the feed-forward layer."""

    attention_dropout_rate: Probability = 0.1
    """Dropout of attention weights."""

    intermediate_dropout: Probability = 0.1
    """Dropout inside the feed-forward layer."""

    use_bias: bool = False
    """Whether the projections of attention have biases."""

    norm_first: bool = True
    """Whether layers normalise their input (pre-norm, trains stably) or their sum (post-norm)."""

    norm_epsilon: ranges.Positive = 1e-6
    """Added to the variance in layer normalisation."""


@dataclasses.dataclass
class ModelConfig(base_config.Config):
    """An encoder-decoder Transformer and how it decodes."""

    encoder: EncDecoder = dataclasses.field(default_factory=EncDecoder)
    """The encoder."""

    decoder: EncDecoder = dataclasses.field(default_factory=EncDecoder)
    """The decoder."""

    embedding_width: ranges.Size = 512
    """Width of embeddings and of everything between blocks. One matrix embeds source and target
    and computes the logits."""

    dropout_rate: Probability = 0.1
    """Dropout of embeddings."""

    padded_decode: bool = False
    """Whether decoding keeps fixed shapes, as TPUs and XLA need."""

    decode_max_length: ranges.Size | None = None
    """Longest translation, in tokens. None allows what the source has and `extra_decode_length`."""

    extra_decode_length: Annotated[int, Ge(0), Lt(2**31)] = 50
    """How many tokens longer than its source a translation may be."""

    beam_size: ranges.Size = 4
    """Translations kept at every step of the beam search."""

    alpha: ranges.NonNegative = 0.6
    """Strength of the length normalisation that keeps the search from preferring short output."""

    min_length: Annotated[int, Ge(0), Lt(2**31)] = 0
    """Fewest tokens of a translation, its end not counted."""

    no_repeat_ngram_size: Annotated[int, Ge(0), Lt(2**31)] = 0
    """No translation holds the same so many tokens in a row twice. 0 allows all."""

    position_repeats: ranges.Size = 1
    """Copies of the positions' sinusoids, each of a part of the width. A model that grew from a
    narrower one has as many as its width was multiplied by."""

    embed_start: bool = False
    """Whether a target starts with the embedding of id 0, as in models of the TensorFlow Model
    Garden, instead of zeros. Needed to start from a checkpoint of theirs."""

    skip_padding: bool | None = None
    """Whether training computes tokens alone, without the padding beside them. None: where shapes
    are not fixed (`padded_decode`, `static_batch`) and training is not private."""

    label_smoothing: Probability = 0.1
    """Probability that the loss takes from the right token and spreads over the others."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields heads that do not part the width."""
        for name in ("encoder", "decoder"):
            heads = getattr(self, name).num_attention_heads
            if self.embedding_width % heads:
                yield (
                    f"{name}.num_attention_heads",
                    f"got {heads}, expected a divisor of embedding_width={self.embedding_width}.",
                )


@dataclasses.dataclass
class TranslationConfig(cfg.TaskConfig):
    """Trains a translation model on sentence pairs."""

    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    """The model."""

    train_data: wmt_dataloader.WMTDataConfig = dataclasses.field(
        default_factory=lambda: wmt_dataloader.WMTDataConfig(is_training=True)
    )
    """Training pairs."""

    validation_data: wmt_dataloader.WMTDataConfig = dataclasses.field(
        default_factory=lambda: wmt_dataloader.WMTDataConfig(is_training=False)
    )
    """Pairs to evaluate on."""

    sentencepiece_model_path: str | None = ""
    """SentencePiece model that cuts text into tokens. Empty: one is trained from `train_data` and
    kept as `vocabulary.model` in the model directory."""

    share_vocabulary: bool = True
    """Whether source and target have the same vocabulary and embeddings. Otherwise
    `sentencepiece_model_path` is for the source, and the target has its own."""

    target_sentencepiece_model_path: str = ""
    """SentencePiece model of the target language, where it has its own. Empty: one is trained and
    kept as `target_vocabulary.model` in the model directory."""

    vocab_size: Annotated[int, Gt(3), Lt(2**31)] = 8000
    """Tokens of each vocabulary to train. Not used with `sentencepiece_model_path`."""

    max_vocab_pairs: ranges.Size = 1_000_000
    """Most pairs that a vocabulary is trained from. Of more, as many are taken, evenly spread."""

    print_translations: bool | None = None
    """Whether each evaluation shows three translations beside their references, the same every
    time. None shows them as well; False does not. All are in `translations/step-N.tsv`."""

    @override
    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what does not fit together."""
        yield from super().check()
        if self.share_vocabulary and self.target_sentencepiece_model_path:
            yield (
                "target_sentencepiece_model_path",
                f"got {self.target_sentencepiece_model_path!r}, but share_vocabulary is true; set "
                "it to false to give the target a vocabulary of its own",
            )


def skips_padding(config: TranslationConfig) -> bool:
    """Returns whether training computes tokens alone.

    Fixed shapes and private training need the padding beside them.
    """
    if config.model.skip_padding is not None:
        return config.model.skip_padding
    is_static = config.train_data is not None and config.train_data.static_batch
    has_fixed_shapes = config.model.padded_decode or is_static
    return not has_fixed_shapes and config.differential_privacy_config is None
