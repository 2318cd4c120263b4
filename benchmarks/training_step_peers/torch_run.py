"""Trains the Transformer of `batches.py` with PyTorch and prints what was measured as JSON.

python torch_run.py --precision=bfloat16 --steps=30 [--compile]
"""

import argparse
import json
import math
import time

import batches
import torch
from torch import nn
from torch.nn import functional

SIZES = batches.SIZES


class Translator(nn.Module):
    """`nn.Transformer` between one matrix that embeds both sides and computes the logits."""

    def __init__(self, max_length: int = SIZES.length) -> None:
        """Creates the layers, for sentences of up to `max_length` tokens."""
        super().__init__()
        self.embedding = nn.Embedding(SIZES.vocab_size, SIZES.width)
        nn.init.normal_(self.embedding.weight, std=SIZES.width**-0.5)
        self.transformer = nn.Transformer(
            SIZES.width,
            SIZES.num_heads,
            SIZES.num_layers,
            SIZES.num_layers,
            SIZES.intermediate_size,
            SIZES.dropout_rate,
            batch_first=True,
            norm_first=True,
        )
        self.dropout = nn.Dropout(SIZES.dropout_rate)
        angles = torch.arange(max_length)[:, None] * torch.exp(
            -math.log(10_000.0) * torch.arange(SIZES.width // 2) / (SIZES.width // 2 - 1)
        )
        self.register_buffer("positions", torch.cat([angles.sin(), angles.cos()], dim=1))
        mask = nn.Transformer.generate_square_subsequent_mask(max_length)
        self.register_buffer("mask", mask)

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """Returns embedded ids with their positions."""
        positions = self.positions[: ids.shape[1]]
        return self.dropout(self.embedding(ids) * SIZES.width**0.5 + positions)

    def forward(
        self,
        source: torch.Tensor,
        target: torch.Tensor,
        padding: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Returns the logits of each target from those before it.

        Args:
            source: Ids.
            target: Ids.
            padding: True where the source is padding; None if it has none.
        """
        shifted = functional.pad(target, (1, 0))[:, :-1]
        length = target.shape[1]
        outputs = self.transformer(
            self.embed(source),
            self.embed(shifted),
            tgt_mask=self.mask[:length, :length],
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return functional.linear(outputs, self.embedding.weight)


def main() -> None:
    """Trains, measures and prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", choices=["float32", "bfloat16"], required=True)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=6)
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    model = Translator()
    optimizer = torch.optim.Adam(
        model.parameters(), lr=SIZES.learning_rate, betas=(0.9, 0.98), eps=1e-9, fused=True
    )
    data = [
        (torch.from_numpy(source).long(), torch.from_numpy(target).long())
        for source, target in batches.build()
    ]

    def forward(source: torch.Tensor, target: torch.Tensor, smoothing: float) -> torch.Tensor:
        is_mixed = options.precision == "bfloat16"
        with torch.autocast("cpu", torch.bfloat16, enabled=is_mixed):
            logits = model(source, target)
        return functional.cross_entropy(
            logits.float().flatten(0, 1),
            target.flatten(),
            ignore_index=batches.PAD_ID,
            label_smoothing=smoothing,
        )

    compute = torch.compile(forward) if options.compile else forward

    def train(number: int) -> None:
        optimizer.zero_grad(set_to_none=True)
        compute(*data[number % len(data)], SIZES.label_smoothing).backward()
        optimizer.step()

    for number in range(options.warmup):
        train(number)
    start = time.perf_counter()
    for number in range(options.warmup, options.warmup + options.steps):
        train(number)
    secs = time.perf_counter() - start
    memory = batches.peak_memory()
    model.eval()
    with torch.no_grad():
        loss = forward(*data[0], 0.0).item()
    tokens = options.steps * batches.count_tokens()
    print(json.dumps({"tokens_per_sec": tokens / secs, "loss": loss, "mib": memory}))


if __name__ == "__main__":
    main()
