"""Configs of optimizers that Keras has and the reference library does not, and of the choice."""

import dataclasses
from collections.abc import Iterator

from typing_extensions import override

from quintain.optimization.configs import choices, optimizer_config
from quintain.optimization.configs.ranges import (
    Finite,
    Fraction,
    NonNegative,
    NonPositive,
    Positive,
    Steps,
)


@dataclasses.dataclass
class AdadeltaConfig(optimizer_config.BaseOptimizerConfig):
    """Adadelta: steps whose size follows from the sizes of former gradients and steps."""

    name: str = "Adadelta"
    """Name of the optimizer."""

    rho: Fraction = 0.95
    """Decay of both averages, in `[0, 1)`."""

    epsilon: Positive = 1e-07
    """Added to both averages; without it no step would ever differ from 0."""


@dataclasses.dataclass
class AdamaxConfig(optimizer_config.BaseOptimizerConfig):
    """Adamax: Adam with the largest gradient instead of the mean square."""

    name: str = "Adamax"
    """Name of the optimizer."""

    beta_1: Fraction = 0.9
    """Decay of the mean of gradients, in `[0, 1)`."""

    beta_2: Fraction = 0.999
    """Decay of the largest gradient, in `[0, 1)`."""

    epsilon: Positive = 1e-07
    """Added to the largest gradient, against division by 0."""


@dataclasses.dataclass
class NadamConfig(optimizer_config.MomentsConfig):
    """Nadam: Adam with Nesterov momentum."""

    name: str = "Nadam"
    jit_compile: bool = False
    """Whether updates are compiled by XLA: faster on a CPU, after a longer first step."""


@dataclasses.dataclass
class FtrlConfig(optimizer_config.BaseOptimizerConfig):
    """FTRL: follow the regularised leader, for sparse linear models."""

    name: str = "Ftrl"
    """Name of the optimizer."""

    learning_rate_power: NonPositive = -0.5
    """How the learning rate falls with the sum of squares; 0 for a fixed one."""

    initial_accumulator_value: NonNegative = 0.1
    """Start of the sum of squares."""

    l1_regularization_strength: NonNegative = 0.0
    """Strength of the L1 penalty, which makes weights 0."""

    l2_regularization_strength: NonNegative = 0.0
    """Strength of the L2 penalty of the solution."""

    l2_shrinkage_regularization_strength: NonNegative = 0.0
    """Strength of the L2 penalty of the loss."""

    beta: NonNegative = 0.0
    """The paper's value of this name: adds `beta / (2 * lr)` to the L2 penalty of the solution."""


@dataclasses.dataclass
class LionConfig(optimizer_config.BaseOptimizerConfig):
    """Lion: steps of the same size for all weights, in the direction of a sign."""

    name: str = "Lion"
    """Name of the optimizer."""

    beta_1: Fraction = 0.9
    """Share of the mean, not the gradient, in the direction of a step, in `[0, 1)`."""

    beta_2: Fraction = 0.99
    """Decay of the mean of gradients, in `[0, 1)`."""

    weight_decay: NonNegative = 0.0
    """Fraction of a weight that is subtracted at each update, times the learning rate."""

    exclude_from_weight_decay: list[str] | None = None
    """Regular expressions searched for in a variable's path; a match does not decay."""

    jit_compile: bool = False
    """Whether updates are compiled by XLA: faster on a CPU, after a longer first step."""


@dataclasses.dataclass
class MuonConfig(optimizer_config.BaseOptimizerConfig):
    """Muon: matrices move by orthogonal steps, all other weights by Adam."""

    name: str = "Muon"
    """Name of the optimizer."""

    adam_beta_1: Fraction = 0.9
    """Adam's decay of the mean of gradients, in `[0, 1)`."""

    adam_beta_2: Fraction = 0.999
    """Adam's decay of the mean of squared gradients, in `[0, 1)`."""

    adam_weight_decay: NonNegative = 0.004
    """Weight decay of the weights that Adam updates, times the learning rate."""

    adam_lr_ratio: NonNegative = 1.0
    """Adam's learning rate as a multiple of the learning rate."""

    epsilon: Positive = 1e-07
    """Added by Adam to the root of the mean square, against division by 0."""

    weight_decay: NonNegative = 0.004
    """Weight decay of the matrices, times the learning rate."""

    exclude_from_weight_decay: list[str] | None = None
    """Regular expressions searched for in a variable's path; a match does not decay."""

    exclude_layers: list[str] | None = None
    """Regular expressions of paths that Adam updates. The output layer should be among them."""

    exclude_embeddings: bool = True
    """Whether Adam updates weights with `embedding` in their path."""

    muon_a: Finite = 3.4445
    """Factor of the first power in a Newton-Schulz step."""

    muon_b: Finite = -4.7750
    """Factor of the third power in a Newton-Schulz step."""

    muon_c: Finite = 2.0315
    """Factor of the fifth power in a Newton-Schulz step."""

    momentum: Fraction = 0.95
    """Fraction of the former gradients that stays, in `[0, 1)`."""

    ns_steps: Steps = 5
    """Number of Newton-Schulz steps."""

    nesterov: bool = True
    """Whether momentum looks one step ahead."""

    rms_rate: NonNegative = 0.2
    """Root mean square of a step at a learning rate of 1; 0 for steps whose singular values are
    near 1."""


@dataclasses.dataclass
class OptimizerConfig(optimizer_config.ReferenceOptimizerConfig):
    """The optimizer, chosen by `type`."""

    adafactor_keras: optimizer_config.AdafactorKerasConfig = choices.choice(
        optimizer_config.AdafactorKerasConfig, "rules.adafactor.AdafactorKeras"
    )
    """Adafactor, as Keras 3 has it."""

    lion: LionConfig = choices.choice(LionConfig, "rules.lion.Lion")
    """Steps of the same size for all weights, in the direction of a sign."""

    muon: MuonConfig = choices.choice(MuonConfig, "rules.muon.Muon")
    """Orthogonal steps for matrices, Adam for all other weights."""

    adadelta: AdadeltaConfig = choices.choice(AdadeltaConfig, "rules.adadelta.Adadelta")
    """Steps whose size follows from the sizes of former gradients and steps."""

    adamax: AdamaxConfig = choices.choice(AdamaxConfig, "rules.adamax.Adamax")
    """Adam with the largest gradient instead of the mean square."""

    nadam: NadamConfig = choices.choice(NadamConfig, "rules.nadam.Nadam")
    """Adam with Nesterov momentum."""

    ftrl: FtrlConfig = choices.choice(FtrlConfig, "rules.ftrl.Ftrl")
    """Follow the regularised leader, for sparse linear models."""

    @override
    def choices(self) -> list[str]:
        """Returns the names that `type` may take; `slide` only where a subclass describes it."""
        is_described = type(self.slide) is not optimizer_config.SLIDEConfig
        return [name for name in super().choices() if name != "slide" or is_described]

    @override
    def check(self) -> Iterator[tuple[str, str]]:
        """Yields a problem if `type` is not one of the choices."""
        if self.type == "slide" and "slide" not in self.choices():
            yield (
                "type",
                "got 'slide', an optimizer whose rule was never published, so it can't be built. "
                "'lamb' and 'lars' adapt steps by layer; 'adafactor' suits large sparse layers.",
            )
        else:
            yield from super().check()
