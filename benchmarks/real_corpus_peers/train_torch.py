"""Trains PyTorch's `nn.Transformer` on a corpus, batched by length."""

import argparse
from typing import Any

import batches
import corpus
import numpy as np
import torch
import torch_greedy
import torch_run
from torch.nn import functional
from torch.utils import data

SIZES = batches.SIZES
PAD_ID = batches.PAD_ID


def collate(pairs: list[corpus.Pair]) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the padded sources and targets."""
    sources, targets = zip(*pairs, strict=True)
    return torch.from_numpy(corpus.pad(sources)), torch.from_numpy(corpus.pad(targets))


def build_run(options: argparse.Namespace, model: Any) -> corpus.Run:
    """Returns the run, which evaluates the model."""
    is_mixed = options.precision == "bfloat16"

    def infer(function: Any, *args: Any) -> Any:
        model.eval()
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=is_mixed):
            result = function(*args)
        model.train()
        return result

    def evaluate(sources: np.ndarray, targets: np.ndarray) -> float:
        source, target = torch.from_numpy(sources), torch.from_numpy(targets)
        logits = infer(model, source, target, source == PAD_ID).float().flatten(0, 1)
        loss = functional.cross_entropy(
            logits, target.flatten(), ignore_index=PAD_ID, reduction="sum"
        )
        return loss.item()

    def translate(sources: np.ndarray, limits: np.ndarray) -> np.ndarray:
        return infer(torch_greedy.translate, model, torch.from_numpy(sources), limits)

    return corpus.Run(options, evaluate, translate)


def main() -> None:
    """Trains until the time is over."""
    options = corpus.parse_options()
    torch.manual_seed(options.seed)
    model = torch_run.Translator(corpus.MAX_LENGTH + corpus.EXTRA_LENGTH)
    optimizer = torch.optim.Adam(
        model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9, fused=True
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: corpus.learning_rate(step + 1)
    )
    pairs = corpus.read_pairs(options, "train")
    sampler = corpus.LengthBatches(pairs, options)
    loader = data.DataLoader(pairs, batch_sampler=sampler, collate_fn=collate)

    def compute_loss(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bfloat16"):
            logits = model(source, target, source == PAD_ID)
        return functional.cross_entropy(
            logits.float().flatten(0, 1),
            target.flatten(),
            ignore_index=PAD_ID,
            label_smoothing=SIZES.label_smoothing,
        )

    compute = torch.compile(compute_loss, dynamic=True) if options.compile else compute_loss
    run = build_run(options, model)
    for source, target in loader:
        optimizer.zero_grad(set_to_none=True)
        compute(source, target).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), corpus.CLIP_NORM)
        optimizer.step()
        schedule.step()
        if run.count(int((source != PAD_ID).sum() + (target != PAD_ID).sum())):
            return


if __name__ == "__main__":
    main()
