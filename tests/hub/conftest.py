"""A small preset, examples, and a run that fine-tuned it."""

import json

import pytest

from quintain.cli import main
from tests.hub import tiny_presets


@pytest.fixture(scope="session")
def hub_data(tmp_path_factory):
    """Returns a file of labelled texts, with their words as well."""
    path = tmp_path_factory.mktemp("hub_data") / "texts.jsonl"
    rows = [
        {
            "text": text,
            "label": "good" if "good" in text else "bad",
            "tokens": text.split(),
            "labels": [int(word in ("good", "bad")) for word in text.split()],
        }
        for text in tiny_presets.SENTENCES
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture(scope="session")
def bert_preset(tmp_path_factory):
    return tiny_presets.make("bert", tmp_path_factory.mktemp("hub_presets"))


@pytest.fixture(scope="session")
def train(hub_data, bert_preset):
    """Returns a function that trains the small preset by the command line."""

    def run(
        model_dir, *, steps=6, preset=bert_preset, experiment="hub/text_classification", **more
    ):
        settings = {
            "task.model.preset": preset,
            "task.model.sequence_length": 8,
            "task.model.lora.rank": 2,
            "task.label_names": "[good,bad]",
            "task.train_data.input_path": hub_data,
            "task.train_data.global_batch_size": 2,
            "task.validation_data.input_path": hub_data,
            "task.validation_data.global_batch_size": 2,
            "trainer.steps_per_loop": 3,
            "trainer.summary_interval": 3,
            "trainer.checkpoint_interval": 3,
            "trainer.validation_interval": 6,
            "runtime.seed": 7,
            **more,
            "trainer.train_steps": steps,
        }
        return main.run(
            [
                "train",
                f"--experiment={experiment}",
                f"--model-dir={model_dir}",
                "--quiet",
                *(f"--set={name}={value}" for name, value in settings.items()),
            ]
        )

    return run


@pytest.fixture(scope="session")
def adapted_run(train, tmp_path_factory):
    """Returns the directory of a run of 6 steps with adapters."""
    path = tmp_path_factory.mktemp("hub_runs") / "adapted"
    assert train(path) == 0
    return path
