"""Pretrains the BERT of `batches.py` with Hugging Face and PyTorch, and prints what was measured.

python torch_run.py --precision=bfloat16 [--gathered] [--compile]
"""

import argparse
import functools

import batches
import measuring
import torch
import torch_peer
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


class BertPeer(torch_peer.TorchPeer):
    """The model of Hugging Face."""

    def load(self, weights: measuring.Weights) -> None:
        """Starts from the given weights."""
        bert, head = self.model.bert, self.model.cls.predictions
        tables = {
            "words": bert.embeddings.word_embeddings,
            "positions": bert.embeddings.position_embeddings,
            "types": bert.embeddings.token_type_embeddings,
        }
        pairs = [
            (table.weight, weights.take(f"{name}/embeddings")) for name, table in tables.items()
        ]
        norms = {"embedding_norm": bert.embeddings.LayerNorm}
        norms["transform_norm"] = head.transform.LayerNorm
        linears = {
            "pooler": bert.pooler.dense,
            "transform": head.transform.dense,
            "next_sentence": self.model.cls.seq_relationship,
        }
        for number, layer in enumerate(bert.encoder.layer):
            name, own = f"block_{number}", layer.attention.self
            linears[f"{name}_attention/query"] = own.query
            linears[f"{name}_attention/key"] = own.key
            linears[f"{name}_attention/value"] = own.value
            linears[f"{name}_attention/attention_output"] = layer.attention.output.dense
            linears[f"{name}_expand"] = layer.intermediate.dense
            linears[f"{name}_contract"] = layer.output.dense
            norms[f"{name}_attention_norm"] = layer.attention.output.LayerNorm
            norms[f"{name}_feed_forward_norm"] = layer.output.LayerNorm
        for name, linear in linears.items():
            pairs += torch_peer.pair_linear(linear, weights, name)
        for name, norm in norms.items():
            pairs += torch_peer.pair_norm(norm, weights, name)
        pairs.append((head.bias, weights.take("masked_lm/bias")))
        torch_peer.assign(self.model, pairs)

    def evaluate(self) -> float:
        """Returns the loss of the batch held out."""
        self.model.eval()
        _, held_out = batches.build()
        with torch.no_grad(), self.autocast():
            return compute_gathered(self.model, to_tensors(held_out)).item()


def build(options: argparse.Namespace) -> BertPeer:
    """Returns the model with its optimizer and batches."""
    torch.manual_seed(0)
    model = build_model()
    trained, _ = batches.build()
    compute = compute_gathered if options.gathered else compute_whole
    return BertPeer(
        model,
        build_optimizer(model),
        [to_tensors(batch) for batch in trained],
        functools.partial(compute, model),
        options,
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what this peer has."""
    torch_peer.add_options(parser)
    parser.add_argument("--gathered", action="store_true", help="logits of masked words only")


if __name__ == "__main__":
    measuring.main(build, tokens_per_step=batches.count_tokens(), add_options=add_options)
