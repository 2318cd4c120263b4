import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.cli import main
from quintain.core import exp_factory, task_factory
from quintain.nlp import experiments
from quintain.nlp.configs import encoders
from quintain.nlp.data import dual_encoder_dataloader
from quintain.nlp.tasks import dual_encoder
from quintain.serving import served_model

TINY = {
    "vocab_size": 40,
    "hidden_size": 8,
    "num_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 32,
}
LEFT = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], np.float32)
RIGHT = np.array([[0.0, 1.0], [0.1, 1.0], [0.6, 0.8]], np.float32)


def make_task(*, recall_of_all=True, data=None, **fields):
    encoder = encoders.EncoderConfig(bert=encoders.BertEncoderConfig(**TINY))
    model = dual_encoder.ModelConfig(
        **({"max_sequence_length": 32, "encoder": encoder, "eval_top_k": (1, 2)} | fields)
    )
    config = dual_encoder_dataloader.DualEncoderDataConfig(
        **({"input_path": "dummy", "seq_length": 32} | (data or {}))
    )
    return dual_encoder.DualEncoderTask(
        dual_encoder.DualEncoderConfig(model=model, train_data=config, recall_of_all=recall_of_all)
    )


def cross_entropy(logits, labels):
    logits = np.asarray(logits, np.float64)
    own = logits[np.arange(len(logits)), labels]
    return np.mean(np.log(np.exp(logits).sum(axis=1)) - own)


@pytest.mark.parametrize("is_bidirectional", [False, True])
def test_the_loss_is_that_of_scaled_products_less_a_margin(is_bidirectional):
    task = make_task(logit_scale=5.0, logit_margin=0.3, bidirectional=is_bidirectional)
    model = task.build_model()

    loss = task.build_losses(None, model.compare(LEFT, RIGHT))

    logits = 5 * (LEFT @ RIGHT.T - 0.3 * np.eye(3))
    expected = cross_entropy(logits, range(3))
    expected += cross_entropy(logits.T, range(3)) if is_bidirectional else 0
    assert float(loss) == pytest.approx(expected, rel=1e-5)


def test_recall_counts_within_a_batch_and_among_all_pairs():
    task = make_task(bidirectional=True)
    metrics = task.build_metrics()
    model = task.build_model()
    state = None
    for rows in (slice(0, 2), slice(2, 3)):
        left, right = tf.constant(LEFT[rows]), tf.constant(RIGHT[rows])
        task.process_metrics(metrics, None, model.compare(left, right))
        state = task.aggregate_logs(state, {"left": (left,), "right": (right,)})

    found = {metric.name: float(metric.result()) for metric in metrics}
    assert found == pytest.approx(
        {
            "batch_size_per_core": 1.5,
            "left_recall_at_1": 2 / 3,
            "left_recall_at_2": 1,
            "right_recall_at_1": 2 / 3,
            "right_recall_at_2": 1,
        }
    )
    assert task.reduce_aggregated_logs(state) == pytest.approx(
        {
            "left_recall_of_all_at_1": 2 / 3,
            "left_recall_of_all_at_2": 2 / 3,
            "right_recall_of_all_at_1": 2 / 3,
            "right_recall_of_all_at_2": 2 / 3,
        }
    )


def test_evaluation_gives_the_outputs_of_training_and_can_leave_out_the_recall_of_all():
    task = make_task(recall_of_all=False, normalize=False)
    model = task.build_model()
    batch = next(iter(task.build_inputs(task.task_config.train_data)))
    batch["left_word_ids"] += tf.range(10)[:, tf.newaxis]

    logs = task.validation_step(batch, model, task.build_metrics())

    expected = task.build_losses(None, model(batch, training=False))
    assert float(logs["loss"]) == pytest.approx(float(expected), rel=1e-6)
    assert logs["left"].shape == (10, 8)
    assert task.aggregate_logs(None, logs) is None
    assert task.reduce_aggregated_logs(None) == {}


def test_texts_longer_than_the_model_takes_are_an_error():
    with pytest.raises(errors.ConfigError, match=r"seq_length: got 32, expected at most .*=16"):
        make_task(max_sequence_length=16).build_model()


def test_own_data_need_their_paths():
    assert experiments.retrieval
    config = exp_factory.get_exp_config("dual_encoder/text")

    assert type(task_factory.get_task(config.task)) is dual_encoder.DualEncoderTask
    with pytest.raises(errors.ConfigError, match=r"task\.train_data\.input_path"):
        config.validate()


LOCAL = [
    "train",
    "--experiment=dual_encoder/local",
    "--quiet",
    *(
        f"--set=task.model.encoder.bert.{name}={value}"
        for name, value in {
            "hidden_size": 16,
            "num_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 16,
            "dropout_rate": 0.1,
        }.items()
    ),
    "--set=trainer.train_steps=4",
    "--set=trainer.steps_per_loop=2",
    "--set=trainer.checkpoint_interval=2",
    "--set=trainer.validation_interval=4",
    "--set=runtime.seed=3",
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Directories of a run of four steps, and of one that went on after two."""
    whole, parts = tmp_path_factory.mktemp("whole ü"), tmp_path_factory.mktemp("b") / "parts"
    assert main.run([*LOCAL, f"--model-dir={whole}"]) == 0
    shutil.copytree(whole, parts, ignore=shutil.ignore_patterns("ckpt-4*", "evaluations*"))
    assert main.run([*LOCAL, f"--model-dir={parts}"]) == 0
    return whole, parts


@pytest.mark.slow
def test_a_resumed_run_is_equal_to_the_bit(runs):
    readers = [tf.train.load_checkpoint(str(directory / "ckpt-4")) for directory in runs]
    names = [name for name in readers[0].get_variable_to_shape_map() if "VARIABLE_VALUE" in name]

    assert names
    for name in names:
        np.testing.assert_array_equal(
            readers[0].get_tensor(name), readers[1].get_tensor(name), err_msg=name
        )
    whole, parts = (
        json.loads((directory / "evaluations.jsonl").read_text().splitlines()[-1])["metrics"]
        for directory in runs
    )
    assert whole["left_recall_of_all_at_10"] == parts["left_recall_of_all_at_10"]
    assert 0 < whole["left_recall_of_all_at_10"] < whole["left_recall_at_10"] < 1


@pytest.mark.slow
def test_run_and_export_give_vectors_and_the_nearest_texts(runs, tmp_path, capsys):
    texts = ["ein Drittel", "the third of May", "neunzehn"]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    export = tmp_path / "exp ü"

    served = served_model.load(str(runs[0]))
    vectors = np.array(served.run(served.check(texts)))
    assert main.run(["export", f"--model-dir={runs[0]}", f"--output={export}"]) == 0
    capsys.readouterr()

    assert (served.field, served.result) == ("texts", "vectors")
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    nearest = np.argsort(-vectors @ vectors.T, axis=1)[1, :2]
    command = ["predict", f"--model-dir={export}"]
    find = [*command, f"--candidates={tmp_path / 'texts.txt'}", "--top=2", "--json", texts[1]]
    assert main.run(find) == 0
    (found,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert [one["text"] for one in found["neighbours"]] == [texts[place] for place in nearest]
    assert found["neighbours"][0]["score"] == pytest.approx(1, abs=1e-5)
    assert main.run([*command, texts[2]]) == 0
    np.testing.assert_allclose(
        json.loads(capsys.readouterr().out)["vectors"], vectors[2], atol=1e-5
    )
    (tmp_path / "texts.txt").write_text("\n")
    assert main.run(find) == 2
    assert "texts.txt: no texts, the file is empty" in capsys.readouterr().err
