import json

import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.cli import main
from quintain.hub import adapters, configs, dpo, heads, hub_experiments
from quintain.serving import servable
from tests.hub import tiny_presets

PAIR = {"prompt": "good?", "chosen": "a b", "rejected": "b a"}
ASK, RIGHT, WRONG = (
    {"role": role, "content": content}
    for role, content in [("user", "good?"), ("assistant", "a b"), ("assistant", "b a")]
)


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def read(path, *rows):
    params = configs.HubDataConfig(input_path=write(path / "pairs.jsonl", *rows))
    return [pair for _, pair in dpo.read_pairs(params)]


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_is_that_of_equation_7(smoothing):
    generator = np.random.default_rng(3)
    logits = generator.normal(size=[3, 2, 4, 5]).astype(np.float32)
    label = generator.integers(0, 5, [3, 2, 4])
    weight = generator.integers(0, 2, [3, 2, 4]).astype(np.float32)
    reference = generator.normal(size=[3, 2]).astype(np.float32) * 4
    labels = {heads.LABEL: tf.constant(label), heads.WEIGHT: tf.constant(weight),
              dpo.REFERENCE: tf.constant(reference)}  # fmt: skip
    config = hub_experiments.hub_dpo().task.replace(beta=0.3, label_smoothing=smoothing)

    loss = dpo.DpoTask(config).build_losses(labels, tf.constant(logits))

    wide = logits.astype(np.float64)
    every = wide - np.log(np.exp(wide).sum(-1, keepdims=True))
    taken = np.take_along_axis(every, label[..., None], -1)[..., 0]
    ratios = (taken * weight).sum(-1) - reference
    margins = 0.3 * (ratios[:, 0] - ratios[:, 1])
    right, swapped = (-np.log(1 / (1 + np.exp(-sign * margins))) for sign in (1, -1))
    expected = ((1 - smoothing) * right + smoothing * swapped).mean()
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_shapes_of_pairs_that_others_write_are_the_same_pair(tmp_path):
    whole = {"chosen": [ASK, RIGHT], "rejected": [ASK, WRONG]}

    pairs = read(
        tmp_path,
        PAIR,
        {"prompt": [ASK], "chosen": [RIGHT], "rejected": [WRONG]},
        whole,
        {"prompt": "good?", **whole},
    )

    assert pairs == [([ASK, RIGHT], [ASK, WRONG])] * 4


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": "good?", "chosen": "a"}, "rejected: got None, expected an answer"),
        ({**PAIR, "chosen": ""}, "chosen: got '', expected an answer"),
        ({**PAIR, "rejected": [ASK]}, "rejected: expected a conversation that asks"),
        ({"chosen": "a", "rejected": "b"}, "chosen: expected a conversation that asks"),
        ({**PAIR, "chosen": 3}, "chosen: got 3, expected a list"),
        ({**PAIR, "prompt": [{"role": "me"}]}, r"prompt\[0\].role: got 'me'"),
        (
            {"chosen": [ASK, RIGHT], "rejected": [{**ASK, "content": "bad?"}, WRONG]},
            "conversations with different questions",
        ),
    ],
)
def test_lines_that_are_no_pairs_are_refused_with_their_place(row, message, tmp_path):
    with pytest.raises(errors.DataError, match=rf"pairs.jsonl:2: .*{message}"):
        read(tmp_path, PAIR, row)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"packing": True}, "packing"),
        ({"model": {"load_weights": False}}, "model.load_weights"),
        ({"distillation": {"teacher": "bert"}}, "distillation.teacher"),
    ],
)
def test_settings_that_pairs_do_not_have_are_refused(change, path):
    config = hub_experiments.hub_dpo().task
    config.override(change)

    assert [where for where, _ in config.check()] == [path]


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    return tiny_presets.make("gpt2", tmp_path_factory.mktemp("presets"))


def build_task(preset, path, **more):
    config = hub_experiments.hub_dpo().task
    model = {"preset": preset, "sequence_length": 48, "lora": {"rank": 4}, **more}
    data = {"input_path": path, "global_batch_size": 2}
    config.override({"model": model, "train_data": data, "template": {"name": "plain"}})
    return dpo.DpoTask(config)


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", [{}, {"quantization": "int8"}, {"lora": {"rank": 0}}], ids=["lora", "int8", "all"]
)
def test_the_first_loss_is_the_logarithm_of_two(more, preset, tmp_path):
    path = write(tmp_path / "pairs.jsonl", PAIR, {**PAIR, "rejected": "a rather long answer"})
    task = build_task(preset, path, **more)
    model = task.build_model()
    features, labels = next(iter(task.build_inputs(task.task_config.train_data)))

    loss = task.build_losses(labels, model(features, training=True))

    np.testing.assert_allclose(loss, np.log(2), atol=1e-5)
    assert np.all(labels[dpo.REFERENCE] < -1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**PAIR, "rejected": "a b"}, "chosen, rejected: got the same tokens"),
        ({**PAIR, "rejected": "b" * 48}, "rejected: got .* tokens with its prompt"),
    ],
)
def test_pairs_of_which_nothing_is_learnt_are_refused_with_their_place(
    row, message, preset, tmp_path
):
    task = build_task(preset, write(tmp_path / "pairs.jsonl", PAIR, row))

    with pytest.raises(errors.DataError, match=rf"pairs.jsonl:2: {message}"):
        task.build_inputs(task.task_config.train_data)


@pytest.fixture(scope="module")
def preferring_run(preset, tmp_path_factory):
    directory = tmp_path_factory.mktemp("preferences")
    path = write(directory / "pairs.jsonl", *[PAIR] * 4)
    settings = {
        "task.model.preset": preset,
        "task.model.sequence_length": 48,
        "task.model.lora.rank": 4,
        "task.template.name": "plain",
        "task.train_data.input_path": path,
        "task.train_data.global_batch_size": 2,
        "task.validation_data.input_path": path,
        "task.validation_data.global_batch_size": 3,
        "task.generation.num_examples": 1,
        "task.generation.max_new_tokens": 4,
        "trainer.train_steps": 20,
        "trainer.checkpoint_interval": 20,
        "trainer.validation_interval": 20,
        "trainer.optimizer_config.learning_rate.polynomial.initial_learning_rate": 0.03,
        "trainer.optimizer_config.learning_rate.polynomial.decay_steps": 20,
        "trainer.optimizer_config.warmup.linear.warmup_steps": 2,
        "runtime.seed": 7,
    }
    code = main.run(
        ["train", "--experiment=hub/dpo", f"--model-dir={directory / 'run'}", "--quiet"]
        + [f"--set={name}={value}" for name, value in settings.items()]
    )
    assert code == 0
    return directory / "run"


@pytest.mark.slow
def test_a_run_prefers_what_was_chosen(preferring_run):
    (line,) = (preferring_run / "evaluations.jsonl").read_text().splitlines()
    final = json.loads(line)["metrics"]

    assert final["accuracy"] == 1.0
    assert final["margin"] > 0.2
    expected = np.log1p(np.exp(-final["margin"]))  # All pairs are the same.
    np.testing.assert_allclose(final["validation_loss"], expected, rtol=1e-5)
    assert "exact_match" in final


@pytest.mark.slow
def test_checkpoints_hold_adapters_only_and_exports_none(preferring_run):
    names = [name for name, _ in tf.train.list_variables(str(preferring_run / "ckpt-20"))]
    held = [name for name in names if name.startswith("model/") and "VARIABLE" in name]
    module = servable.load(str(preferring_run)).module

    assert len(held) == 2 * 2 * 2
    assert all("lora" in name for name in held)
    assert not any(adapters.list_adapted(module.model))
    assert module.chat.answer([ASK]).text
