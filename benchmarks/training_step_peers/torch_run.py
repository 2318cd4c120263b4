"""Trains the Transformer of `batches.py` with PyTorch and prints what was measured as JSON.

python torch_run.py --precision=bfloat16 [--compile]
"""

import argparse
import math

import batches
import measuring
import numpy as np
import torch
import torch_peer
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


class TranslatorPeer(torch_peer.TorchPeer):
    """The translator with Adam."""

    def load(self, weights: measuring.Weights) -> None:
        """Starts from the given weights."""
        pairs = [(self.model.embedding.weight, weights.take("embedding/table"))]
        transformer = self.model.transformer
        for side, stack in (("encoder", transformer.encoder), ("decoder", transformer.decoder)):
            pairs += torch_peer.pair_norm(stack.norm, weights, f"{side}_norm")
            for number, layer in enumerate(stack.layers):
                part = f"{side}_{number}"
                attentions, norms = {"self": layer.self_attn}, ["self", "feed_forward"]
                if side == "decoder":
                    attentions["cross"] = layer.multihead_attn
                    norms.insert(1, "cross")
                for name, attention in attentions.items():
                    pairs += _pair_attention(attention, weights, f"{part}_{name}")
                for place, name in enumerate(norms, start=1):
                    norm = getattr(layer, f"norm{place}")
                    pairs += torch_peer.pair_norm(norm, weights, f"{part}_{name}_norm")
                pairs += torch_peer.pair_linear(layer.linear1, weights, f"{part}_expand")
                pairs += torch_peer.pair_linear(layer.linear2, weights, f"{part}_contract")
        torch_peer.assign(self.model, pairs)

    def train(self, first: int, count: int) -> float:
        """Trains; returns the mean loss, which is 0 for the best prediction, as ours is."""
        return super().train(first, count) - batches.smoothing_entropy()

    def evaluate(self) -> float:
        """Returns the loss of the first batch, without smoothing."""
        self.model.eval()
        with torch.no_grad(), self.autocast():
            return compute_loss(self.model, *self.data[0], 0.0).item()


def _pair_attention(
    attention: nn.MultiheadAttention, weights: measuring.Weights, name: str
) -> list[tuple[nn.Parameter, np.ndarray]]:
    inputs = [f"{name}/{part}" for part in ("query", "key", "value")]
    kernels = [weights.take(f"{part}/kernel").T for part in inputs]
    biases = [weights.take(f"{part}/bias") for part in inputs]
    return [
        (attention.in_proj_weight, np.concatenate(kernels)),
        (attention.in_proj_bias, np.concatenate(biases)),
        *torch_peer.pair_linear(attention.out_proj, weights, f"{name}/attention_output"),
    ]


def compute_loss(
    model: Translator, source: torch.Tensor, target: torch.Tensor, smoothing: float
) -> torch.Tensor:
    """Returns the mean cross entropy of the target's words."""
    return functional.cross_entropy(
        model(source, target).float().flatten(0, 1),
        target.flatten(),
        ignore_index=batches.PAD_ID,
        label_smoothing=smoothing,
    )


def build(options: argparse.Namespace) -> TranslatorPeer:
    """Returns the model with its optimizer and batches."""
    torch.manual_seed(0)
    model = Translator()
    optimizer = torch.optim.Adam(
        model.parameters(),
        lr=SIZES.learning_rate,
        betas=(0.9, 0.98),
        eps=SIZES.epsilon,
        fused=True,
    )
    data = [
        (torch.from_numpy(source).long(), torch.from_numpy(target).long())
        for source, target in batches.build()
    ]
    smoothing = batches.spread_smoothing()
    return TranslatorPeer(
        model, optimizer, data, lambda batch: compute_loss(model, *batch, smoothing), options
    )


if __name__ == "__main__":
    measuring.main(
        build, tokens_per_step=batches.count_tokens(), add_options=torch_peer.add_options
    )
