"""Config of classification and regression of texts."""

import dataclasses
from typing import Annotated, Literal, get_args

from annotated_types import Ge, Lt

from quintain import errors
from quintain.config import base_config
from quintain.nlp.configs import encoders
from quintain.nlp.data import sentence_prediction_dataloader
from quintain.settings import config_definitions as cfg

MetricType = Literal[
    "accuracy",
    "f1",
    "matthews",
    "matthews_corrcoef",
    "pearson_spearman",
    "pearson_spearman_corr",
]

METRIC_TYPES = frozenset(get_args(MetricType))

NUMERIC_METRICS = ("pearson_spearman", "pearson_spearman_corr")
"""Metrics of numbers."""


@dataclasses.dataclass
class ModelConfig(base_config.Config):
    """A classifier or a regressor."""

    num_classes: Annotated[int, Ge(0), Lt(2**31)] = 0
    """Classes; 1 predicts a number. 0 takes as many as there are `label_names`."""

    use_encoder_pooler: bool = False
    """Whether the classifier takes the encoder's pooled output. Otherwise it has a dense layer of
    its own above the first position."""

    encoder: encoders.EncoderConfig = dataclasses.field(default_factory=encoders.EncoderConfig)
    """The encoder."""


@dataclasses.dataclass
class SentencePredictionConfig(cfg.TaskConfig):
    """Sentence prediction: model, data and labels."""

    init_cls_pooler: bool = False
    """Whether the classifier's own dense layer starts from that of the classifier `next_sentence`
    of `init_checkpoint`, which then needs an `inner_dim`. Not with `use_encoder_pooler`."""

    hub_module_url: str = base_config.unused(
        "",
        "Models of TensorFlow Hub can't be loaded by Keras 3; describe the encoder in "
        "task.model.encoder and give its checkpoint as task.init_checkpoint.",
    )
    """Kept for configs of the reference."""

    metric_type: MetricType = "accuracy"
    """What evaluation computes of all predictions together, beside loss and accuracy: `f1` (of
    class 1 of two, the mean of all of more), `matthews_corrcoef`, or `pearson_spearman_corr`, the
    mean of the two correlations. `matthews` and `pearson_spearman` are the same."""

    label_names: list[str] | None = None
    """Names of the classes, in the order of their ids. Text data then names its labels, and
    predictions do."""

    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    """The model."""

    train_data: cfg.DataConfig = dataclasses.field(
        default_factory=sentence_prediction_dataloader.SentencePredictionDataConfig
    )
    """Training data."""

    validation_data: cfg.DataConfig = dataclasses.field(
        default_factory=lambda: sentence_prediction_dataloader.SentencePredictionDataConfig(
            is_training=False
        )
    )
    """Evaluation data."""


def get_label_names(config: SentencePredictionConfig) -> list[str] | None:
    """Returns the names of the classes; None if they have none."""
    names = config.label_names or getattr(config.train_data, "label_names", None)
    return list(names) if names else None


def check(config: SentencePredictionConfig) -> None:
    """Checks that classes, their names and the metric go together.

    Raises:
        ConfigError: If they do not.
    """
    num_classes, names = config.model.num_classes, get_label_names(config)
    if not num_classes and not names:
        raise errors.ConfigError(
            "task.model.num_classes: got 0, expected the number of classes, or 1 to predict a "
            "number; or the names of the classes in task.label_names."
        )
    if names is not None and (len(set(names)) != len(names) or num_classes not in (0, len(names))):
        raise errors.ConfigError(
            f"task.label_names: got {len(names)} names, {len(set(names))} of them different, "
            f"expected one for each of the {num_classes or len(names)} classes of "
            "task.model.num_classes."
        )
    num_classes = num_classes or len(names or ())
    is_numeric = config.metric_type in NUMERIC_METRICS
    if config.metric_type != "accuracy" and is_numeric != (num_classes == 1):
        raise errors.ConfigError(
            f"task.metric_type: got {config.metric_type!r} with {num_classes} classes; "
            "correlations are for numbers (task.model.num_classes=1), f1 and matthews_corrcoef for "
            "classes."
        )
    if config.init_cls_pooler and config.model.use_encoder_pooler:
        raise errors.ConfigError(
            "task.init_cls_pooler: got true with task.model.use_encoder_pooler, which leaves no "
            "dense layer to initialise; the encoder's pooler is part of the encoder. Set one of "
            "them to false."
        )
