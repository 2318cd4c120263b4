"""A model of PyTorch with an optimizer."""

import argparse
from collections.abc import Callable, Iterable
from typing import Any

import measuring
import torch

Loss = Callable[[Any], torch.Tensor]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what PyTorch's peers have."""
    parser.add_argument("--compile", action="store_true")


class TorchPeer:
    """Trains a module, under autocast in bfloat16, compiled or as it is."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        data: list[Any],
        compute_loss: Loss,
        options: argparse.Namespace,
    ) -> None:
        """Stores the parts; `compute_loss` takes an element of `data`."""
        self.model = model
        self.optimizer = optimizer
        self.data = data
        self.is_mixed = options.precision == "bfloat16"

        def compute(batch: Any) -> torch.Tensor:
            with self.autocast():
                return compute_loss(batch)

        self._compute: Loss = torch.compile(compute) if options.compile else compute

    def autocast(self) -> torch.autocast:
        """Returns the context to compute in."""
        return torch.autocast("cpu", torch.bfloat16, enabled=self.is_mixed)

    def train(self, first: int, count: int) -> float:
        """Trains on the batches from number `first` on; returns the mean of their losses."""
        total = torch.zeros(())
        for number in range(first, first + count):
            self.optimizer.zero_grad(set_to_none=True)
            loss = self._compute(self.data[number % len(self.data)])
            loss.backward()
            self.optimizer.step()
            total += loss.detach()
        return total.item() / count


def assign(model: torch.nn.Module, pairs: Iterable[tuple[torch.nn.Parameter, Any]]) -> None:
    """Sets all parameters of a model to arrays; raises ValueError if some are left."""
    left = {id(parameter): name for name, parameter in model.named_parameters()}
    with torch.no_grad():
        for parameter, value in pairs:
            parameter.copy_(torch.from_numpy(value))
            del left[id(parameter)]
    if left:
        raise ValueError(f"parameters without weights: {', '.join(left.values())}")


def pair_linear(
    linear: torch.nn.Linear, weights: measuring.Weights, name: str
) -> list[tuple[torch.nn.Parameter, Any]]:
    """Returns the parameters of a linear layer with their values."""
    return [
        (linear.weight, weights.take(f"{name}/kernel").T),
        (linear.bias, weights.take(f"{name}/bias")),
    ]


def pair_norm(
    norm: torch.nn.LayerNorm, weights: measuring.Weights, name: str
) -> list[tuple[torch.nn.Parameter, Any]]:
    """Returns the parameters of a normalisation with their values."""
    return [
        (norm.weight, weights.take(f"{name}/gamma")),
        (norm.bias, weights.take(f"{name}/beta")),
    ]
