"""Trains a Transformer of Hugging Face on a corpus with `Seq2SeqTrainer`."""

import argparse
import os
import tempfile
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import batches
import corpus
import numpy as np
import tokenizers
import torch
import transformers
from torch.nn import functional
from transformers.models.m2m_100 import modeling_m2m_100

SIZES = batches.SIZES
PAD_ID, EOS_ID = batches.PAD_ID, batches.EOS_ID
NEVER = 1_000_000
"""Steps that no run reaches."""


class Translator(transformers.M2M100ForConditionalGeneration):
    """An M2M100 that trains with smoothed labels, for which the collator asks for its inputs."""

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """Returns the labels, shifted by one."""
        return modeling_m2m_100.shift_tokens_right(labels, PAD_ID, PAD_ID)


def build_model() -> Translator:
    """Returns an M2M100: pre-norm, ReLU, sinusoids and one matrix of embeddings, as the others."""
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (
            ("layers", SIZES.num_layers),
            ("attention_heads", SIZES.num_heads),
            ("ffn_dim", SIZES.intermediate_size),
            ("layerdrop", 0.0),
        )
    }
    return Translator(
        transformers.M2M100Config(
            **sides,
            vocab_size=SIZES.vocab_size,
            d_model=SIZES.width,
            max_position_embeddings=corpus.MAX_LENGTH + corpus.EXTRA_LENGTH,
            dropout=SIZES.dropout_rate,
            attention_dropout=SIZES.dropout_rate,
            activation_dropout=SIZES.dropout_rate,
            activation_function="relu",
            scale_embedding=True,
            init_std=SIZES.width**-0.5,
            pad_token_id=PAD_ID,
            bos_token_id=None,
            eos_token_id=EOS_ID,
            decoder_start_token_id=PAD_ID,
        )
    )


def build_padder() -> Any:
    """Returns a tokenizer that only pads; the ids are those of SentencePiece."""
    words = tokenizers.models.WordLevel({"<pad>": PAD_ID, "</s>": EOS_ID}, unk_token="</s>")
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(words), pad_token="<pad>", eos_token="</s>"
    )


def build_arguments(options: argparse.Namespace, batch_size: int) -> Any:
    """Returns the settings of the trainer."""
    return transformers.Seq2SeqTrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=batch_size,
        train_sampling_strategy="group_by_length",
        optim="adamw_torch_fused",
        learning_rate=corpus.PEAK_LEARNING_RATE,
        lr_scheduler_type="inverse_sqrt",
        warmup_steps=corpus.WARMUP_STEPS,
        adam_beta2=0.98,
        adam_epsilon=1e-9,
        max_grad_norm=corpus.CLIP_NORM,
        label_smoothing_factor=SIZES.label_smoothing,
        bf16=options.precision == "bfloat16",
        use_cpu=True,
        max_steps=NEVER,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        dataloader_pin_memory=False,
        seed=options.seed,
    )


class CountingTrainer(transformers.Seq2SeqTrainer):
    """Counts the tokens of each batch for a callback."""

    num_tokens = 0

    def training_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Trains on a batch."""
        self.num_tokens = int(inputs["attention_mask"].sum() + (inputs["labels"] != -100).sum())
        return super().training_step(model, inputs, *args, **kwargs)


class StopInTime(transformers.TrainerCallback):
    """Evaluates on the way, and ends the training when the time is over."""

    def __init__(self, trainer: CountingTrainer, run: corpus.Run) -> None:
        """Stores what counts."""
        self._trainer = trainer
        self._run = run

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Counts a step."""
        control.should_training_stop = self._run.count(self._trainer.num_tokens)


def build_run(options: argparse.Namespace, model: Any) -> corpus.Run:
    """Returns the run, which evaluates the model."""
    is_mixed = options.precision == "bfloat16"

    def infer(function: Any, **inputs: Any) -> Any:
        model.eval()
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=is_mixed):
            result = function(**inputs)
        model.train()
        return result

    def evaluate(sources: np.ndarray, targets: np.ndarray) -> float:
        source, target = torch.from_numpy(sources), torch.from_numpy(targets)
        shifted = functional.pad(target, (1, 0))[:, :-1]
        outputs = infer(
            model, input_ids=source, attention_mask=source != PAD_ID, decoder_input_ids=shifted
        )
        loss = functional.cross_entropy(
            outputs.logits.float().flatten(0, 1),
            target.flatten(),
            ignore_index=PAD_ID,
            reduction="sum",
        )
        return loss.item()

    def translate(sources: np.ndarray, limits: np.ndarray) -> np.ndarray:
        source = torch.from_numpy(sources)
        found = infer(
            model.generate,
            input_ids=source,
            attention_mask=source != PAD_ID,
            max_new_tokens=int(limits.max()),
            num_beams=1,
            do_sample=False,
        )
        return found[:, 1:].numpy()

    return corpus.Run(options, evaluate, translate)


def main() -> None:
    """Trains until the time is over."""
    options = corpus.parse_options()
    transformers.set_seed(options.seed)
    model = build_model()
    pairs = corpus.read_pairs(options, "train")
    # Batches have a fixed number of pairs; so many that the tokens of a batch are those of others.
    lengths = corpus.LengthBatches(pairs, options)
    batch_size = round(len(pairs) / len(lengths.draw_epoch(np.random.default_rng(0))))
    padder = build_padder()
    trainer = CountingTrainer(
        model=model,
        args=build_arguments(options, batch_size),
        train_dataset=[
            {"input_ids": source, "attention_mask": [1] * len(source), "labels": target}
            for source, target in pairs
        ],
        data_collator=transformers.DataCollatorForSeq2Seq(padder, model=model),
    )
    trainer.add_callback(StopInTime(trainer, build_run(options, model)))
    trainer.train()


if __name__ == "__main__":
    main()
