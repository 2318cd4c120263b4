"""Trains a BERT of Hugging Face by its `Trainer` for a time, and saves its validation's logits."""

import json
import pathlib
import sys
import tempfile
from typing import Any

import numpy as np
import quality_budget
import torch
import transformers
from torch.nn.utils import rnn

PADDING = {"input_ids": 0, "attention_mask": 0, "token_type_ids": 0, "labels": -100}
NAMES = {"input_ids": "word_ids", "attention_mask": "mask", "token_type_ids": "type_ids"}


def read_examples(data: Any) -> list[dict[str, torch.Tensor]]:
    """Returns the training examples, without their padding."""
    columns = {new: data[f"train_input_{old}"] for new, old in NAMES.items()}
    if "train_label_ids" in data:
        labels = data["train_label_ids"]
        columns["labels"] = np.where(labels < 0, -100, labels)
    lengths = columns["attention_mask"].sum(axis=1)
    examples: list[dict[str, torch.Tensor]] = [
        {name: torch.from_numpy(rows[i, :length]).long() for name, rows in columns.items()}
        for i, length in enumerate(lengths)
    ]
    for name in ("start_positions", "end_positions"):
        for example, position in zip(examples, data.get(f"train_{name}", ()), strict=False):
            example[name] = torch.tensor(int(position))
    return examples


def collate(examples: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Pads to the longest of the batch, as Hugging Face's collators do."""
    return {
        name: rnn.pad_sequence(
            [one[name] for one in examples], batch_first=True, padding_value=PADDING[name]
        )
        if name in PADDING
        else torch.stack([one[name] for one in examples])
        for name in examples[0]
    }


class Trainer(transformers.Trainer):
    """A trainer whose learning rate follows the processor time, along the same line."""

    budget: quality_budget.Budget

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """Returns the schedule."""
        del num_training_steps
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer or self.optimizer, lambda _: self.budget.factor
        )
        return self.lr_scheduler


class Evaluation(transformers.TrainerCallback):
    """Predicts the validation part at the points of time, and ends the training at the last."""

    def __init__(self, budget: quality_budget.Budget, data: Any) -> None:
        self._budget = budget
        self._inputs = {
            new: torch.from_numpy(data[f"validation_input_{old}"]).long()
            for new, old in NAMES.items()
        }

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Sees the end of a step."""
        del args
        if state.global_step == 1:
            self._budget.begin()
        self._budget.maybe_evaluate(state.global_step, lambda: self._predict(kwargs["model"]))
        control.should_training_stop = self._budget.is_over

    def _predict(self, model: torch.nn.Module) -> np.ndarray:
        model.eval()
        found = []
        with torch.no_grad():
            for start in range(0, len(self._inputs["input_ids"]), 100):
                outputs = model(
                    **{name: rows[start : start + 100] for name, rows in self._inputs.items()}
                )
                is_tagging = "logits" in outputs
                found.append(
                    outputs.logits
                    if is_tagging
                    else torch.stack([outputs.start_logits, outputs.end_logits], dim=-1)
                )
        return torch.cat(found).numpy()


def run(task: dict[str, Any]) -> None:
    """Trains by the `Trainer`'s defaults, or with the settings of our experiment."""
    described = json.loads(pathlib.Path(task["data"] + ".json").read_text())
    data = dict(np.load(task["data"] + ".npz"))
    is_ours = task["overrides"].get("has_our_settings", False)
    dropouts, settings = {}, {}
    if is_ours:
        dropouts = described["dropouts"]
        settings = {
            "learning_rate": described["rate"],
            "per_device_train_batch_size": described["batch_size"],
        }
    transformers.set_seed(task["seed"])
    config = transformers.BertConfig(
        **described["sizes"], **dropouts, num_labels=described["num_classes"]
    )
    is_tagging = "train_label_ids" in data
    model_class = (
        transformers.BertForTokenClassification
        if is_tagging
        else transformers.BertForQuestionAnswering
    )
    budget = quality_budget.Budget(task, described["warmup"] if is_ours else 0.0)
    trainer = Trainer(
        model=model_class(config),
        args=transformers.TrainingArguments(
            output_dir=tempfile.mkdtemp(),
            max_steps=10_000_000,  # The budget ends it.
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            dataloader_pin_memory=False,
            seed=task["seed"],
            **settings,
        ),
        data_collator=collate,
        train_dataset=read_examples(data),
        callbacks=[Evaluation(budget, data)],
    )
    trainer.budget = budget
    trainer.train()


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(json.loads(sys.argv[1]))
