"""Pretrains the BERT of `batches.py` with Hugging Face and PyTorch, and prints what was measured.

python torch_run.py --precision=bfloat16 --steps=10 [--gathered] [--compile]
"""

import argparse
import json
import time
from collections.abc import Callable

import batches
import torch
import transformers
from torch.nn import functional

SIZES = batches.SIZES
IGNORED = -100

Tensors = dict[str, torch.Tensor]


def build_model() -> transformers.BertForPreTraining:
    """Returns the model in training mode."""
    return transformers.BertForPreTraining(
        transformers.BertConfig(
            vocab_size=SIZES.vocab_size,
            hidden_size=SIZES.width,
            num_hidden_layers=SIZES.num_layers,
            num_attention_heads=SIZES.num_heads,
            intermediate_size=SIZES.intermediate_size,
            hidden_act="gelu_pytorch_tanh",
            hidden_dropout_prob=SIZES.dropout_rate,
            attention_probs_dropout_prob=SIZES.dropout_rate,
            max_position_embeddings=SIZES.num_positions,
            initializer_range=SIZES.initializer_range,
            layer_norm_eps=SIZES.norm_epsilon,
        )
    ).train()


def build_optimizer(model: torch.nn.Module) -> torch.optim.Optimizer:
    """Returns AdamW, which decays matrices only."""
    matrices = [weight for weight in model.parameters() if weight.dim() > 1]
    vectors = [weight for weight in model.parameters() if weight.dim() < 2]
    return torch.optim.AdamW(
        [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}],
        lr=SIZES.learning_rate,
        weight_decay=SIZES.weight_decay,
        eps=SIZES.epsilon,
        fused=True,
    )


def to_tensors(batch: batches.Batch) -> Tensors:
    """Returns what `BertForPreTraining` takes, and the positions of the masked words."""
    tensors = {name: torch.from_numpy(value).long() for name, value in batch.items()}
    labels = torch.full_like(tensors["input_word_ids"], IGNORED)
    labels.scatter_(1, tensors["masked_lm_positions"], tensors["masked_lm_ids"])
    return {
        "input_ids": tensors["input_word_ids"],
        "attention_mask": tensors["input_mask"],
        "token_type_ids": tensors["input_type_ids"],
        "labels": labels,
        "next_sentence_label": tensors["next_sentence_labels"].flatten(),
        "positions": tensors["masked_lm_positions"],
        "masked_ids": tensors["masked_lm_ids"],
    }


def compute_whole(model: transformers.BertForPreTraining, batch: Tensors) -> torch.Tensor:
    """Returns the loss as the model computes it: from the logits of every position."""
    own = ("input_ids", "attention_mask", "token_type_ids", "labels", "next_sentence_label")
    return model(**{name: batch[name] for name in own}).loss


def compute_gathered(model: transformers.BertForPreTraining, batch: Tensors) -> torch.Tensor:
    """Returns the same loss from the logits of the masked positions only."""
    own = ("input_ids", "attention_mask", "token_type_ids")
    outputs = model.bert(**{name: batch[name] for name in own})
    places = batch["positions"][..., None].expand(-1, -1, SIZES.width)
    masked = outputs.last_hidden_state.gather(1, places).flatten(0, 1)
    words, sentences = model.cls(masked, outputs.pooler_output)
    return functional.cross_entropy(
        words.float(), batch["masked_ids"].flatten()
    ) + functional.cross_entropy(sentences.float(), batch["next_sentence_label"])


def main() -> None:
    """Trains, measures and prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", choices=["float32", "bfloat16"], required=True)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--gathered", action="store_true", help="logits of masked words only")
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    model = build_model()
    optimizer = build_optimizer(model)
    trained, held_out = batches.build()
    data = [to_tensors(batch) for batch in trained]
    compute_loss = compute_gathered if options.gathered else compute_whole

    def forward(batch: Tensors) -> torch.Tensor:
        is_mixed = options.precision == "bfloat16"
        with torch.autocast("cpu", torch.bfloat16, enabled=is_mixed):
            return compute_loss(model, batch)

    compute: Callable[[Tensors], torch.Tensor] = forward
    if options.compile:
        compute = torch.compile(forward)

    def train(number: int) -> None:
        optimizer.zero_grad(set_to_none=True)
        compute(data[number % len(data)]).backward()
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
        loss = forward(to_tensors(held_out)).item()
    tokens = options.steps * batches.count_tokens()
    print(json.dumps({"tokens_per_sec": tokens / secs, "loss": loss, "mib": memory}))


if __name__ == "__main__":
    main()
