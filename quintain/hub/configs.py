"""Configs of fine-tuning: the preset, its head, what of it is trained, and the data."""

import dataclasses
from collections.abc import Iterator
from typing import Annotated, Final, Literal

from annotated_types import Ge, Le, Lt

from quintain.config import base_config
from quintain.optimization.configs import ranges
from quintain.settings import config_definitions as cfg

Head = Literal[
    "text_classification",
    "token_classification",
    "masked_lm",
    "causal_lm",
    "image_classification",
    "semantic_segmentation",
    "object_detection",
]
IMAGE_HEADS: Final = ("image_classification", "semantic_segmentation", "object_detection")
"""Those that read images."""


@dataclasses.dataclass
class LoraConfig(base_config.Config):
    """Low-rank adapters beside frozen layers.

    Source:
        Hu et al., 2021 (https://arxiv.org/abs/2106.09685).
    """

    rank: Annotated[int, Ge(0), Le(4096)] = 0
    """Rank of the adapters. 0 has none, and trains the weights themselves."""

    alpha: ranges.NonNegative = 0.0
    """What adapters add counts `alpha / rank`. 0 takes `rank`."""

    layers: tuple[str, ...] = ()
    """Names or paths of layers that get one: patterns as in a shell, such as `*/feedforward_*`.
    Empty takes what the family has by default, mostly queries and values."""


@dataclasses.dataclass
class ModelConfig(base_config.Config):
    """A pretrained model with a head."""

    preset: str = ""
    """Directory that `save_to_preset` wrote, `hf://USER/MODEL`, `kaggle://...`,
    `modelscope://USER/MODEL`, or a name that KerasHub knows."""

    head: Head = "text_classification"
    """Purpose of the model."""

    num_classes: Annotated[int, Ge(0), Lt(2**31)] = 0
    """Classes of a classifier, whose head is new. 0 takes as many as there are `label_names`, or
    else the head that the preset has."""

    sequence_length: Annotated[int, Ge(2), Le(2**24)] = 128
    """Positions of an example. Longer texts are cut."""

    load_weights: bool = True
    """Whether to start from the preset's weights. False begins with random ones of its shape."""

    frozen: tuple[str, ...] = ()
    """Paths of variables that are not trained: patterns as in a shell. `backbone/*` are all but the
    head's."""

    lora: LoraConfig = dataclasses.field(default_factory=LoraConfig)
    """Adapters, which freeze all of the backbone else."""

    quantization: Literal["none", "int8"] = "none"
    """Whether the backbone, frozen beside adapters, is held in int8 (QLoRA)."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the fields whose values do not fit together."""
        if self.quantization != "none" and not self.lora.rank:
            yield (
                "quantization",
                f"got {self.quantization!r} with lora.rank=0, but weights of 8 bits can't be "
                "trained. Set lora.rank, or leave it out.",
            )


@dataclasses.dataclass
class DistillationConfig(base_config.Config):
    """A trained model of the same head, whose outputs are learnt beside the labels.

    Source:
        Hinton et al., 2015 (https://arxiv.org/abs/1503.02531).
    """

    teacher: str = ""
    """Preset of the teacher, with its head and the same vocabulary. Empty distils nothing."""

    weight: ranges.UnitInterval = 0.5
    """Share of the teacher in the loss."""

    temperature: ranges.Positive = 2.0
    """Divisor of logits, for smoother probabilities."""


@dataclasses.dataclass
class HubDataConfig(cfg.DataConfig):
    """Examples: JSON Lines or TSV with a header line (also `.gz`), a data set, images by class.

    A data set is an entry of TensorFlow Datasets, or a directory that `save_to_disk` of the library
    `datasets` wrote.
    """

    global_batch_size: cfg.NonNegativeInt = 16
    """Examples in a batch over all replicas."""

    is_training: bool | None = True
    """Whether the data is shuffled and repeated for training."""

    fields: tuple[str, ...] = ("text",)
    """Fields that the model reads: texts, several of a pair; for token classification the list of
    words; for images the path, from the file's directory on."""

    label_field: str = "label"
    """Field with the class, a name or a number; for token classification a list of them; for
    segmentation the path of the mask."""


@dataclasses.dataclass
class HubConfig(cfg.TaskConfig):
    """Fine-tuning of a preset."""

    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    """The model."""

    label_names: list[str] | None = None
    """Names of the classes, in the order of their ids. Without them data number their classes."""

    ignored_class: Annotated[int, Ge(0), Le(255)] = 255
    """Number in masks of pixels that count neither in the loss nor in metrics."""

    distillation: DistillationConfig = dataclasses.field(default_factory=DistillationConfig)
    """The teacher, if there is one."""

    train_data: HubDataConfig = dataclasses.field(default_factory=HubDataConfig)
    """Training data."""

    validation_data: HubDataConfig = dataclasses.field(
        default_factory=lambda: HubDataConfig(is_training=False)
    )
    """Evaluation data."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the fields whose values do not fit together."""
        yield from super().check()
        if (self.model.head == "object_detection") != isinstance(self, DetectionConfig):
            yield (
                "model.head",
                f"got {self.model.head!r}, but objects are detected by hub/object_detection, which "
                "does nothing else. Choose the experiment of the head.",
            )
        if self.model.head == "semantic_segmentation" and self.model.num_classes > 256:
            yield (
                "model.num_classes",
                f"got {self.model.num_classes}, but masks number at most 256 classes.",
            )
        for name, data in {"train": self.train_data, "validation": self.validation_data}.items():
            # Data may be None, where the trainer is given a dataset.
            entry = data.tfds_name if data is not None else ""
            if self.model.head in IMAGE_HEADS and entry:
                yield (
                    f"{name}_data.tfds_name",
                    f"got {entry!r}, but images are read from input_path only.",
                )


@dataclasses.dataclass
class DetectionDataConfig(HubDataConfig):
    """Images with boxes around objects: JSON Lines, or annotation files of COCO (`.json`)."""

    fields: tuple[str, ...] = ("image",)
    """Field of JSON Lines with the path of the image. `boxes` has lists of left, top, right and
    bottom in pixels."""

    label_field: str = "labels"
    """Field with the list of the boxes' classes, names or numbers."""

    image_dir: str = ""
    """Directory of the images. Empty takes that of the file."""


@dataclasses.dataclass
class DetectionConfig(HubConfig):
    """Detection of objects by a RetinaNet."""

    model: ModelConfig = dataclasses.field(
        default_factory=lambda: ModelConfig(head="object_detection")
    )
    """The model."""

    score_threshold: ranges.UnitInterval = 0.5
    """Least probability of the objects that predictions show; evaluation counts others too."""

    iou_threshold: ranges.UnitInterval = 0.5
    """Intersection over union from which the less probable one of two objects of a class is left
    out."""

    train_data: DetectionDataConfig = dataclasses.field(default_factory=DetectionDataConfig)
    """Training data."""

    validation_data: DetectionDataConfig = dataclasses.field(
        default_factory=lambda: DetectionDataConfig(is_training=False)
    )
    """Evaluation data."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the fields whose values do not fit together."""
        yield from super().check()
        if self.distillation.teacher:
            yield (
                "distillation.teacher",
                f"got {self.distillation.teacher!r}, but detectors have no teacher. Leave it "
                "empty.",
            )


@dataclasses.dataclass
class TemplateConfig(base_config.Config):
    """Template of a conversation, which is written as one text."""

    name: Literal["chatml", "plain", "own"] = "chatml"
    """`chatml` writes `<|im_start|>ROLE`, a line with the content, `<|im_end|>`; `plain` writes
    `ROLE: ` and the content on a line. `own` takes `before` and `after`."""

    before: str = ""
    """Own text before the content of a turn, in which `{role}` is replaced."""

    after: str = ""
    """Own text after it, which also ends an answer."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the fields whose values do not fit together."""
        if self.name == "own" and ("{role}" not in self.before or not self.after):
            yield (
                "before",
                f"got {self.before!r} and after={self.after!r} for an own template, expected a "
                "text with {role} before a turn, and one that ends it.",
            )


@dataclasses.dataclass
class GenerationConfig(base_config.Config):
    """Decoding of answers."""

    max_new_tokens: Annotated[int, Ge(1), Le(2**24)] = 64
    """Most tokens of an answer."""

    temperature: ranges.NonNegative = 0.0
    """0 takes the best token each time. Otherwise tokens are drawn; 1 draws as the model says."""

    top_k: Annotated[int, Ge(0), Lt(2**31)] = 0
    """Best tokens among which is drawn. 0 for all."""

    top_p: ranges.PositiveShare = 1.0
    """Probability that the best tokens, among which is drawn, have together."""

    num_beams: Annotated[int, Ge(1), Le(1024)] = 1
    """Texts that are followed at the same time, to find the most probable; not with a
    temperature."""

    stop: tuple[str, ...] = ()
    """Texts before which an answer ends, besides the end of a turn."""

    num_examples: Annotated[int, Ge(0), Le(10**9)] = 64
    """Conversations of the evaluation data whose last answer is generated and compared
    (`exact_match`)."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the fields whose values do not fit together."""
        if self.num_beams > 1 and self.temperature:
            yield (
                "num_beams",
                f"got {self.num_beams} with temperature={self.temperature}: beams draw nothing. "
                "Set one of them to what it is by default.",
            )


@dataclasses.dataclass
class SftConfig(HubConfig):
    """Supervised fine-tuning of a causal model on conversations."""

    model: ModelConfig = dataclasses.field(default_factory=lambda: ModelConfig(head="causal_lm"))
    """The model."""

    template: TemplateConfig = dataclasses.field(default_factory=TemplateConfig)
    """Template of conversations."""

    generation: GenerationConfig = dataclasses.field(default_factory=GenerationConfig)
    """Decoding of answers, in evaluation and when the model is used."""

    packing: bool = True
    """Whether several conversations share a row, without seeing each other. The families that can
    are GPT-2, Llama, Mistral and Qwen."""


@dataclasses.dataclass
class DpoConfig(SftConfig):
    """Direct preference optimisation of a causal model, whose reference is the preset.

    Source:
        Rafailov et al., 2023 (https://arxiv.org/abs/2305.18290).
    """

    beta: ranges.Positive = 0.1
    """Weight of the log-probabilities' ratio to the reference's: more stays closer to it."""

    label_smoothing: Annotated[float, Ge(0), Lt(0.5)] = 0.0
    """Share of the pairs that are taken for swapped."""

    generation: GenerationConfig = dataclasses.field(
        default_factory=lambda: GenerationConfig(num_examples=0)
    )
    """Decoding of answers, in evaluation, which compares them to the chosen ones, and when the
    model is used."""

    packing: bool = False
    """False: each conversation of a pair has its row."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the fields whose values do not fit together."""
        yield from super().check()
        if self.packing:
            yield "packing", "got true, but pairs do not share rows. Set it to false."
        if not self.model.load_weights:
            yield (
                "model.load_weights",
                "got false, but the preset's weights are the reference. Set it to true.",
            )
        if self.distillation.teacher:
            yield (
                "distillation.teacher",
                f"got {self.distillation.teacher!r}, but preferences have no teacher. Leave it "
                "empty.",
            )
