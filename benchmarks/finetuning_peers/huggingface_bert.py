"""Fine-tunes a BERT of Hugging Face by its `Trainer`, and prints what was measured."""

from typing import Any

import texts
import torch
import transformers


def collate(examples: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Pads to the longest of the batch, as `DataCollatorWithPadding` does."""
    rows = [one["input_ids"] for one in examples]
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], True)
    labels = torch.stack([one["labels"] for one in examples])
    return {"input_ids": padded, "attention_mask": mask, "labels": labels}


class Stopwatch(transformers.TrainerCallback):
    """Starts a clock after the warm-up."""

    def __init__(self, warmup: int) -> None:
        self.warmup = warmup

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Sees the end of a step."""
        del args, control, kwargs
        if state.global_step == self.warmup:
            self.clock = texts.Clock()


if __name__ == "__main__":
    options = texts.parse()
    total = (options.warmup + options.steps) * texts.BATCH_SIZE
    rows, classes = texts.draw(total)
    examples = [
        {"input_ids": torch.from_numpy(row).long(), "labels": torch.tensor(label)}
        for row, label in zip(rows, classes, strict=True)
    ]
    torch.manual_seed(0)
    model = transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=texts.VOCAB_SIZE,
            hidden_size=texts.WIDTH,
            num_hidden_layers=texts.NUM_LAYERS,
            num_attention_heads=texts.NUM_HEADS,
            intermediate_size=texts.INTERMEDIATE,
            num_labels=texts.NUM_CLASSES,
        )
    )
    stopwatch = Stopwatch(options.warmup)
    trainer = transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(
            output_dir="/tmp/quintain-finetuning",
            per_device_train_batch_size=texts.BATCH_SIZE,
            max_steps=options.warmup + options.steps,
            learning_rate=texts.LEARNING_RATE,
            weight_decay=texts.WEIGHT_DECAY,
            optim="adamw_torch_fused",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        ),
        data_collator=collate,
        train_dataset=examples,
        callbacks=[stopwatch],
    )
    trainer.train()
    tokens = sum(map(len, rows)) * options.steps / (options.warmup + options.steps)
    stopwatch.clock.report("tokens", tokens)
