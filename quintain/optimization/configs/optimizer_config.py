"""Configs of optimizers. The rules they follow are in the modules of the same names."""

import dataclasses
import re
from collections.abc import Iterator

from typing_extensions import override

from quintain import errors
from quintain.config import base_config, one_of
from quintain.optimization.configs import choices
from quintain.optimization.configs.ranges import Fraction, Negative, NonNegative, Positive, Steps

_PATTERN_FIELDS = (
    "include_in_weight_decay",
    "exclude_from_weight_decay",
    "exclude_from_layer_adaptation",
    "exclude_layers",
    "learning_rate_factors",
)


@dataclasses.dataclass
class BaseOptimizerConfig(base_config.Config):
    """Gradient clipping, which all optimizers share.

    Gradients are clipped after they have been summed over the replicas, so that the same batch
    gives the same update on any number of devices. `clipvalue` comes first;
    `clipnorm` and `global_clipnorm` exclude each other.
    """

    clipnorm: Positive | None = None
    """Largest L2 norm of one variable's gradient. None for no limit."""

    clipvalue: Positive | None = None
    """Largest absolute value of one number in a gradient. None for no limit."""

    global_clipnorm: Positive | None = None
    """Largest L2 norm of all gradients together. None for no limit."""

    @override
    def check(self) -> Iterator[tuple[str, str]]:
        """Yields a problem if both norms are limited, and for what is not a regular expression."""
        yield from self._check_patterns()
        if self.clipnorm is not None and self.global_clipnorm is not None:
            yield (
                "clipnorm",
                f"got {errors.show(self.clipnorm)} together with "
                f"global_clipnorm={errors.show(self.global_clipnorm)}, "
                "expected at most one of them. Leave one out.",
            )

    def _check_patterns(self) -> Iterator[tuple[str, str]]:
        for name in _PATTERN_FIELDS:
            for pattern in self.as_dict().get(name) or ():
                try:
                    re.compile(pattern)
                except re.error as error:
                    yield (
                        name,
                        (f"got {errors.show(pattern)}, expected a regular expression: {error}."),
                    )


@dataclasses.dataclass
class MomentsConfig(BaseOptimizerConfig):
    """Means of gradients and of their squares, which Adam and its kin keep."""

    name: str = ""
    """Name of the optimizer."""

    beta_1: Fraction = 0.9
    """Decay of the mean of gradients, in `[0, 1)`."""

    beta_2: Fraction = 0.999
    """Decay of the mean of squared gradients, in `[0, 1)`."""

    epsilon: Positive = 1e-07
    """Added to the root of the mean square, against division by 0."""


@dataclasses.dataclass
class SGDConfig(BaseOptimizerConfig):
    """Stochastic gradient descent, with or without momentum."""

    name: str = "SGD"
    """Name of the optimizer."""

    decay: NonNegative = 0.0
    """Divides the learning rate of update `t` by `1 + decay * t`."""

    nesterov: bool = False
    """Whether momentum looks one step ahead."""

    momentum: Fraction = 0.0
    """Fraction of the last update that is repeated, in `[0, 1)`."""


@dataclasses.dataclass
class AdamConfig(MomentsConfig):
    """Adam."""

    name: str = "Adam"
    amsgrad: bool = False
    """Whether the largest mean square so far is used, instead of the present one."""

    learning_rate_factors: dict[str, Positive] | None = None
    """Factors of the learning rate, by regular expressions searched for in a variable's path, such
    as `{embedding: 8}`. All that match are multiplied; decoupled weight decay has none."""


@dataclasses.dataclass
class AdamWeightDecayConfig(AdamConfig):
    """Adam with decoupled weight decay, as BERT was trained with."""

    name: str = "AdamWeightDecay"
    weight_decay_rate: NonNegative = 0.0
    """Fraction of a weight that is subtracted at each update, times the learning rate."""

    include_in_weight_decay: list[str] | None = None
    """Regular expressions searched for in a variable's path; a match decays in any case."""

    exclude_from_weight_decay: list[str] | None = None
    """Regular expressions searched for in a variable's path; a match does not decay."""

    gradient_clip_norm: NonNegative = 1.0
    """Largest L2 norm of all gradients together, applied before the other limits. 0 for none."""


@dataclasses.dataclass
class SGDExperimentalConfig(BaseOptimizerConfig):
    """Stochastic gradient descent, under the names of Keras 3."""

    name: str = "SGD"
    """Name of the optimizer."""

    nesterov: bool = False
    """Whether momentum looks one step ahead."""

    momentum: Fraction = 0.0
    """Fraction of the last update that is repeated, in `[0, 1)`."""

    jit_compile: bool = False
    """Whether updates are compiled by XLA."""


@dataclasses.dataclass
class AdamExperimentalConfig(AdamConfig):
    """Adam, under the names of Keras 3."""

    jit_compile: bool = False
    """Whether updates are compiled by XLA."""


@dataclasses.dataclass
class AdamWeightDecayExperimentalConfig(AdamConfig):
    """Adam with decoupled weight decay, as Keras 3 has it."""

    name: str = "AdamWeightDecayExperimental"
    weight_decay: NonNegative = 0.0
    """Fraction of a weight that is subtracted at each update, times the learning rate."""

    exclude_from_weight_decay: list[str] | None = None
    """Regular expressions searched for in a variable's path; a match does not decay."""

    global_clipnorm: Positive | None = 1.0
    """Largest L2 norm of all gradients together. None for no limit."""

    jit_compile: bool = False
    """Whether updates are compiled by XLA."""


@dataclasses.dataclass
class RMSPropConfig(BaseOptimizerConfig):
    """RMSprop: gradients divided by a running average of their size."""

    name: str = "RMSprop"
    """Name of the optimizer."""

    rho: Fraction = 0.9
    """Decay of the averages, in `[0, 1)`."""

    momentum: Fraction = 0.0
    """Fraction of the last change that is repeated, in `[0, 1)`."""

    epsilon: Positive = 1e-07
    """Added to the mean square, under the root, against division by 0."""

    centered: bool = False
    """Whether the mean square is taken around the mean gradient."""


@dataclasses.dataclass
class AdagradConfig(BaseOptimizerConfig):
    """Adagrad: gradients divided by the root of the sum of all their squares so far."""

    name: str = "Adagrad"
    """Name of the optimizer."""

    initial_accumulator_value: NonNegative = 0.1
    """Start of the sum of squares."""

    epsilon: Positive = 1e-07
    """Added to the root of the sum, against division by 0."""


@dataclasses.dataclass
class LAMBConfig(MomentsConfig):
    """LAMB: Adam with a step relative to the size of each weight."""

    name: str = "LAMB"
    epsilon: Positive = 1e-06
    weight_decay_rate: NonNegative = 0.0
    """Fraction of a weight that is added to its update."""

    exclude_from_weight_decay: list[str] | None = None
    """Regular expressions searched for in a variable's path; a match does not decay."""

    exclude_from_layer_adaptation: list[str] | None = None
    """Regular expressions of paths with a trust ratio of 1. None for the paths that do not decay;
    an empty list for no path."""

    jit_compile: bool = False
    """Whether updates are compiled by XLA: faster on a CPU, after a longer first step."""


@dataclasses.dataclass
class LARSConfig(BaseOptimizerConfig):
    """LARS: momentum with a step relative to the size of each weight."""

    name: str = "LARS"
    """Name of the optimizer."""

    momentum: Fraction = 0.9
    """Fraction of the last step that is repeated, in `[0, 1)`."""

    eeta: Positive = 0.001
    """Size of a step relative to the weight, at a learning rate of 1."""

    weight_decay_rate: NonNegative = 0.0
    """Fraction of a weight that is added to its gradient."""

    nesterov: bool = False
    """Whether momentum looks one step ahead."""

    classic_momentum: bool = True
    """Whether the learning rate is applied before momentum, not after it."""

    exclude_from_weight_decay: list[str] | None = None
    """Regular expressions searched for in a variable's path; a match does not decay."""

    exclude_from_layer_adaptation: list[str] | None = None
    """Regular expressions of paths with a trust ratio of 1. None for the paths that do not decay;
    an empty list for no path."""


@dataclasses.dataclass
class AdafactorConfig(BaseOptimizerConfig):
    """Adafactor, as T5 was trained with."""

    name: str = "Adafactor"
    """Name of the optimizer."""

    factored: bool = True
    """Whether averages of large matrices are kept by rows and columns."""

    multiply_by_parameter_scale: bool = True
    """Whether steps are relative to the size of a weight."""

    beta1: Fraction | None = None
    """Decay of the mean of updates, in `[0, 1)`. None for no momentum."""

    decay_rate: Positive = 0.8
    """How fast the averages come to rest: their decay in update `t` is `1 - t ** -decay_rate`."""

    step_offset: Steps = 0
    """Updates that were done before, when a training is continued by another."""

    clipping_threshold: NonNegative = 1.0
    """Largest root mean square of an update; 0 for no limit."""

    min_dim_size_to_factor: Steps = 128
    """Least size of both axes of a weight that is factored."""

    epsilon1: Positive = 1e-30
    """Added to squared gradients."""

    epsilon2: Positive = 1e-3
    """Least size of a weight, for `multiply_by_parameter_scale`."""

    weight_decay: NonNegative | None = None
    """Fraction of a weight that is subtracted at each update, times the learning rate."""

    include_in_weight_decay: list[str] | None = None
    """Regular expressions of the only paths that decay. None for all."""


@dataclasses.dataclass
class AdafactorKerasConfig(BaseOptimizerConfig):
    """Adafactor, as Keras has it."""

    name: str = "Adafactor"
    """Name of the optimizer."""

    learning_rate: NonNegative = base_config.unused(
        0.001, "Set `learning_rate` beside `optimizer`."
    )
    """Not used: the learning rate is a config of its own."""

    beta_2_decay: Negative = -0.8
    """How fast the averages come to rest: their decay in update `t` is `1 - t ** beta_2_decay`."""

    epsilon_1: Positive = 1e-30
    """Added to squared gradients."""

    epsilon_2: Positive = 1e-3
    """Least size of a weight."""

    clip_threshold: Positive = 1.0
    """Largest root mean square of an update."""

    relative_step: bool = True
    """Whether the learning rate is at most `1 / sqrt(t)` in update `t`."""

    weight_decay: NonNegative | None = None
    """Fraction of a weight that is subtracted at each update, times the learning rate."""

    exclude_from_weight_decay: list[str] | None = None
    """Regular expressions searched for in a variable's path; a match does not decay."""


@dataclasses.dataclass
class SLIDEConfig(MomentsConfig):
    """Fields of an optimizer whose rule was never published: they are read, and have no effect."""

    name: str = "SLIDE"
    epsilon: NonNegative = 1e-6
    weight_decay_rate: NonNegative = 0.0
    """Strength of the decay of weights."""

    weight_decay_type: str = "inner"
    """Place of the decay."""

    exclude_from_weight_decay: list[str] | None = None
    """Regular expressions of paths that do not decay."""

    exclude_from_layer_adaptation: list[str] | None = None
    """Regular expressions of paths that are not adapted."""

    include_in_sparse_layer_adaptation: list[str] | None = None
    """Regular expressions of paths of sparse layers."""

    sparse_layer_learning_rate: Positive = 0.1
    """Learning rate of sparse layers."""

    do_gradient_rescaling: bool = True
    """Whether gradients are scaled."""

    norm_type: str = "layer"
    """What norms are taken of."""

    ratio_clip_norm: Positive = 1e5
    """Largest ratio of norms."""


_CLIPPED_BY_THE_OPTIMIZER = "Gradients are clipped by the optimizer: set it in optimizer.<type>."


@dataclasses.dataclass
class EMAConfig(base_config.Config):
    """Exponential moving average of the weights."""

    clipnorm: Positive | None = base_config.unused(None, _CLIPPED_BY_THE_OPTIMIZER)
    """Kept for configs of the reference."""

    clipvalue: Positive | None = base_config.unused(None, _CLIPPED_BY_THE_OPTIMIZER)
    """Kept for configs of the reference."""

    global_clipnorm: Positive | None = base_config.unused(None, _CLIPPED_BY_THE_OPTIMIZER)
    """Kept for configs of the reference."""

    name: str = "ExponentialMovingAverage"
    """Name of the average."""

    trainable_weights_only: bool = True
    """Whether only trainable weights are averaged."""

    average_decay: Fraction = 0.99
    """Fraction of the average that is kept at each update, in `[0, 1)`."""

    start_step: Steps = 0
    """Step before which the average is a copy of the weights."""

    dynamic_decay: bool = True
    """Whether the decay grows from small values over the first steps."""


@dataclasses.dataclass
class ReferenceOptimizerConfig(one_of.OneOfConfig):
    """The optimizers of the reference library, chosen by `type`."""

    type: str | None = None
    """Which of the optimizers; has to be set."""

    sgd: SGDConfig = choices.choice(SGDConfig, "rules.sgd.SGD")
    """Stochastic gradient descent."""

    adam: AdamConfig = choices.choice(AdamConfig, "rules.adam.Adam")
    """Adam."""

    adamw: AdamWeightDecayConfig = choices.choice(
        AdamWeightDecayConfig, "rules.adam.AdamWeightDecay"
    )
    """Adam with decoupled weight decay."""

    rmsprop: RMSPropConfig = choices.choice(RMSPropConfig, "rules.rmsprop.RMSprop")
    """Gradients divided by a running average of their size."""

    adagrad: AdagradConfig = choices.choice(AdagradConfig, "rules.adagrad.Adagrad")
    """Gradients divided by the root of the sum of all their squares."""

    lamb: LAMBConfig = choices.choice(LAMBConfig, "rules.lamb.LAMB")
    """Adam with a step relative to the size of each weight."""

    lars: LARSConfig = choices.choice(LARSConfig, "rules.lars.LARS")
    """Momentum with a step relative to the size of each weight."""

    sgd_experimental: SGDExperimentalConfig = choices.choice(SGDExperimentalConfig, "rules.sgd.SGD")
    """Stochastic gradient descent, under the names of Keras 3."""

    adam_experimental: AdamExperimentalConfig = choices.choice(
        AdamExperimentalConfig, "rules.adam.Adam"
    )
    """Adam, under the names of Keras 3."""

    adamw_experimental: AdamWeightDecayExperimentalConfig = choices.choice(
        AdamWeightDecayExperimentalConfig, "rules.adam.AdamW"
    )
    """Adam with decoupled weight decay, as Keras 3 has it."""

    adafactor: AdafactorConfig = choices.choice(AdafactorConfig, "rules.adafactor.Adafactor")
    """Adafactor, as T5 was trained with."""

    slide: SLIDEConfig = dataclasses.field(default_factory=SLIDEConfig)
    """Can't be chosen: its rule was never published."""
