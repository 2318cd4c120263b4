"""Every task by the command line: killed, resumed to the bit, searched, exported, served.

A further task is a further function in `TASKS`.
"""

import json
import pathlib

import pytest
import urllib3

from tests.e2e import test_experiment_commands as commands
from tests.hub import test_detection, test_segmentation, tiny_presets
from tests.integration import kill_and_resume

pytestmark = [
    pytest.mark.long("each task's own tests show its parts"),
    pytest.mark.slow,
    pytest.mark.e2e,
]

TRAINER = {
    "trainer.train_steps": 12,
    "trainer.steps_per_loop": 2,
    "trainer.summary_interval": 2,
    "trainer.checkpoint_interval": 4,
    "trainer.validation_interval": 6,
    "runtime.seed": 7,
}
AVERAGE = {"trainer.optimizer_config.ema.average_decay": 0.9}
RATE = "trainer.optimizer_config.learning_rate.{}.initial_learning_rate"
TALK = {
    "messages": [
        {"role": "user", "content": "Who are you?"},
        {"role": "assistant", "content": "A toy."},
    ]
}

shell = commands.shell


def shrink(*encoders):
    sizes = {"hidden_size": 32, "num_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    return {
        f"task.model.{encoder}.bert.{name}": size
        for encoder in encoders
        for name, size in sizes.items()
    }


def read_records(path, batch_size):
    return {
        f"task.{part}_data.{name}": value
        for part in ("train", "validation")
        for name, value in {"input_path": path, "global_batch_size": batch_size}.items()
    }


def answer_questions(directory):
    return {"experiment": "question_answering/local", "metric": "final_f1", **shrink("encoder")}


def tag(directory):
    return {"experiment": "tagging/local", "metric": "f1", **shrink("encoder")}


def detect_replacements(directory):
    return {
        "experiment": "electra/local",
        "metric": "discriminator_accuracy",
        **shrink("generator_encoder", "discriminator_encoder"),
    }


def find_texts(directory):
    return {
        "experiment": "dual_encoder/local",
        "metric": "left_recall_at_1",
        **shrink("encoder"),
    }


def classify_images(directory):
    return {
        "experiment": "image/local",
        "metric": "accuracy",
        "rate": "cosine",
        "task.model.resnet.width": 4,
        "task.model.resnet.num_stages": 1,
        "task.augmentation.mixup": 0.2,
        **AVERAGE,
    }


def predict_column(directory):
    return {"experiment": "tabular/local", "metric": "rmse", "rate": "cosine", **AVERAGE}


def classify_texts(directory):
    rows = [{"text": text, "label": text.split()[1]} for text in tiny_presets.SENTENCES]
    path = write_lines(directory / "texts.jsonl", rows)
    return {
        "experiment": "hub/text_classification",
        "metric": "accuracy",
        "task.label_names": ["good", "bad"],
        "task.model.preset": tiny_presets.make("bert", directory),
        "task.model.sequence_length": 8,
        "task.model.lora.rank": 2,
        **read_records(path, 2),
    }


def segment_images(directory):
    test_segmentation.write_drawn(directory / "pairs")
    return {
        "experiment": "hub/semantic_segmentation",
        "metric": "mean_iou",
        "task.model.preset": tiny_presets.make("segformer", directory),
        "task.model.num_classes": 2,
        **read_records(str(directory / "pairs"), 2),
    }


def detect_objects(directory):
    path = test_detection.write_drawn(directory / "boxes")
    return {
        "experiment": "hub/object_detection",
        "metric": "map",
        "task.model.preset": tiny_presets.make("retinanet", directory),
        "task.label_names": test_detection.NAMES,
        **read_records(str(path), 2),
    }


def converse(directory):
    path = write_lines(directory / "talks.jsonl", [TALK] * 4)
    return {
        "experiment": "hub/sft",
        "metric": "exact_match",
        "task.model.preset": tiny_presets.make("gpt2", directory),
        "task.model.sequence_length": 32,
        "task.model.lora.rank": 2,
        "task.template.name": "plain",
        "task.generation.max_new_tokens": 4,
        **read_records(path, 1),
    }


def prefer(directory):
    question, answer = (turn["content"] for turn in TALK["messages"])
    pair = {"prompt": question, "chosen": answer, "rejected": "A tool."}
    path = write_lines(directory / "pairs.jsonl", [pair] * 4)
    return {
        **converse(directory),
        "experiment": "hub/dpo",
        "task.model.sequence_length": 48,
        "metric": "margin",
        "task.generation.num_examples": 1,
        **read_records(path, 1),
    }


TASKS = [
    answer_questions, tag, detect_replacements, find_texts, classify_images, predict_column,
    classify_texts, segment_images, detect_objects, converse, prefer,
]  # fmt: skip


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def train(shell, experiment, settings, model_dir):
    return shell.start(
        *("train", f"--experiment={experiment}", f"--model-dir={model_dir}", "--quiet"),
        *(f"--set={name}={json.dumps(value)}" for name, value in settings.items()),
    )


def finish(process):
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stdout + stderr


def ask(shell, model_dir, route="/predict", request=None):
    """Serves a model, sends it a request, or else the one that it shows, and returns the answer."""
    server = shell.start("serve-model", f"--model-dir={model_dir}", "--port=0")
    address = None
    for line in server.stderr:
        if "http://" in line:
            address = line[line.index("http://") :].split()[0].rpartition("/")[0]
            break
    assert address, "the server has not begun"
    request = request or urllib3.request("GET", address).json()["example"]
    answer = urllib3.request("POST", f"{address}{route}", json=request)
    server.terminate()
    server.communicate(timeout=60)
    assert answer.status == 200, answer.data
    return answer.json()


@pytest.mark.parametrize("build", TASKS, ids=[build.__name__ for build in TASKS])
def test_a_task_is_killed_resumed_to_the_bit_searched_exported_and_served(build, shell, tmp_path):
    directory = tmp_path / "a ü"
    directory.mkdir()
    settings = build(directory)
    experiment, metric = settings.pop("experiment"), settings.pop("metric")
    rate = RATE.format(settings.pop("rate", "polynomial"))

    whole, killed = directory / "whole", directory / "killed"
    finish(train(shell, experiment, {**TRAINER, **settings}, whole))
    process = train(shell, experiment, {**TRAINER, **settings}, killed)
    kill_and_resume.wait_for_new_checkpoint(process, killed, -1)
    process.kill()
    process.communicate()
    assert kill_and_resume.latest_checkpoint(killed) in (4, 8)
    finish(train(shell, experiment, {**TRAINER, **settings}, killed))
    assert kill_and_resume.find_differences(whole, killed) == []

    shell.run("export", f"--model-dir={killed}", f"--output={directory / 'export'}")
    search = {
        "entrypoint": f"experiment:{experiment}",
        "hyperparameters": {
            **settings,
            rate: {"type": "log", "base": 10, "minval": -4, "maxval": -2},
        },
        "searcher": {
            "name": "random", "metric": metric, "smaller_is_better": metric == "rmse",
            "max_length": {"batches": 4}, "max_trials": 2,
        },
        "scheduling_unit": 2,
        "reproducibility": {"experiment_seed": 7},
    }  # fmt: skip
    path = pathlib.Path(write_lines(directory / "search.yaml", [search]))
    stdout = shell.run("experiment", "create", path, "--slots", 2)
    assert "Experiment 1 is COMPLETED" in stdout
    (best,) = shell.read("experiment", "best", 1)
    assert best["batches"] == 4
    assert best["metric_name"] == metric
    shell.run("checkpoint", "export", best["checkpoint"], "-o", directory / "best")

    for model_dir in (directory / "export", directory / "best" / "saved_model"):
        (answers,) = ask(shell, model_dir).values()
        assert len(answers) == 1
    if experiment in ("hub/sft", "hub/dpo"):
        answer = ask(shell, killed, "/v1/chat/completions", {"messages": TALK["messages"][:1]})
        assert answer["choices"][0]["message"]["role"] == "assistant"
