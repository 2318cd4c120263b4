import json

import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.cli import main
from quintain.core import exp_factory, task_factory
from quintain.nlp import experiments
from quintain.nlp.configs import encoders
from quintain.nlp.data import question_answering_dataloader
from quintain.nlp.data.corpora import bundled_corpora
from quintain.nlp.tasks import question_answering
from quintain.serving import served_model

SIZES = {"hidden_size": 8, "num_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
VOCABULARY = "bundled:questions/vocabulary.txt"


def make_task(**fields):
    data = question_answering_dataloader.QADataConfig(input_path="dummy", seq_length=8)
    encoder = encoders.BertEncoderConfig(vocab_size=800, max_position_embeddings=64, **SIZES)
    config = question_answering.QuestionAnsweringConfig(
        model=question_answering.ModelConfig(encoder=encoders.EncoderConfig(bert=encoder)),
        **({"train_data": data, "validation_data": data} | fields),
    )
    return task_factory.get_task(config)


def test_the_loss_is_the_mean_of_both_cross_entropies():
    starts, ends = (
        np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0]]),
        np.array([[3.0, 1.0, 0.0], [1.0, 1.0, 4.0]]),
    )
    labels = {"start_positions": tf.constant([2, 1]), "end_positions": tf.constant([0, 2])}

    loss = make_task().build_losses(labels, [starts, ends], [tf.constant(2.0)])

    def cross(logits, places):
        odds = np.exp(logits)
        return -np.log(odds[[0, 1], places] / odds.sum(axis=1)).mean()

    expected = (cross(starts, [2, 1]) + cross(ends, [0, 2])) / 2 + 2.0
    assert float(loss) == pytest.approx(expected, rel=1e-6)


def test_the_experiment_of_the_reference_has_its_settings():
    assert experiments.fine_tuning
    config = exp_factory.get_exp_config("bert/squad")

    task, data = config.task, config.task.train_data
    assert (task.n_best_size, task.max_answer_length, task.null_score_diff_threshold) == (20, 30, 0)
    assert (data.global_batch_size, data.seq_length, data.doc_stride) == (48, 384, 128)
    rate = config.trainer.optimizer_config.learning_rate.polynomial
    assert (rate.initial_learning_rate, rate.end_learning_rate) == (8e-5, 0.0)


def test_records_are_what_json_gives_and_evaluation_needs_json(tmp_path, capsys):
    source = "bundled:questions/test.json.gz"
    output = tmp_path / "ä b.tfrecord"
    code = main.run(
        ["data", "squad", f"--input={source}", f"--vocab-file={VOCABULARY}", f"--output={output}",
         "--seq-length=64", "--query-length=16", "--doc-stride=24", "--version-2-with-negative",
         "--nolower-case"]
    )  # fmt: skip
    assert code == 0, capsys.readouterr().err
    assert "360 questions" in capsys.readouterr().out
    options = {"seq_length": 64, "query_length": 16, "doc_stride": 24, "is_training": False}
    options |= {"do_lower_case": False, "version_2_with_negative": True, "vocab_file": VOCABULARY}
    config = question_answering_dataloader.QADataConfig
    loader = question_answering_dataloader.QuestionAnsweringDataLoader

    text, records = (
        next(iter(loader(config(input_path=path, **options)).load()))
        for path in (source, str(output))
    )

    for part, other in zip(text, records, strict=True):
        assert sorted(part) == sorted(other)
        for name, value in part.items():
            np.testing.assert_array_equal(value, other[name])
    with pytest.raises(errors.ConfigError, match=r"expected JSON of SQuAD"):
        make_task().build_inputs(config(input_path=str(output), **options))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of four steps on bundled questions."""
    directory = tmp_path_factory.mktemp("Fragen und Sätze")
    bert = ",".join(f"task.model.encoder.bert.{name}={value}" for name, value in SIZES.items())
    test = "bundled:questions/test.json.gz"
    arguments = [
        "train", "--experiment=question_answering/local", f"--model-dir={directory}/run", "--quiet",
        f"--params_override={bert},trainer.train_steps=4,trainer.checkpoint_interval=2,"
        "trainer.steps_per_loop=2,trainer.validation_interval=4,trainer.summary_interval=2,"
        f"task.train_data.input_path={test},task.validation_data.input_path={test}",
    ]  # fmt: skip
    assert main.run(arguments) == 0
    return directory / "run"


@pytest.mark.slow
def test_a_run_goes_on_from_a_checkpoint_to_the_bit(run, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in run.iterdir():
        if file.is_file() and "-4." not in file.name and file.name != "checkpoint":
            (copy / file.name).write_bytes(file.read_bytes())

    assert main.run(["train", f"--model-dir={copy}", "--quiet"]) == 0

    ours, theirs = (tf.train.load_checkpoint(str(one / "ckpt-4")) for one in (run, copy))
    names = [name for name in ours.get_variable_to_shape_map() if "/VARIABLE_VALUE" in name]
    names = [name for name in names if name.startswith(("model/", "optimizer/"))]
    assert len(names) > 20
    for name in names:
        np.testing.assert_array_equal(ours.get_tensor(name), theirs.get_tensor(name))
    scores = [
        json.loads((one / "evaluations.jsonl").read_text().splitlines()[-1])["metrics"]
        for one in (run, copy)
    ]
    assert scores[0] == scores[1]
    assert {"final_f1", "final_f1_thresh", "HasAns_exact", "NoAns_f1"} <= set(scores[0])


@pytest.mark.slow
def test_a_run_and_its_export_give_answers_with_their_places(run, capsys):
    context = "Ägidius was born in Old Brelstad. " * 20
    asked = [
        {"question": "Where was he born?", "context": context},
        {"question": "", "context": ""},
    ]
    assert main.run(["export", f"--model-dir={run}", f"--output={run}/ex port"]) == 0

    models = [served_model.load(str(one)) for one in (run, run / "ex port")]
    ours, theirs = (model.run(model.check(asked)) for model in models)
    capsys.readouterr()
    assert main.run(["predict", f"--model-dir={run}/ex port", json.dumps(asked[0])]) == 0
    printed = json.loads(capsys.readouterr().out)

    for found in (ours[0], theirs[0], printed):
        assert found["answer"] == ours[0]["answer"]
        for one in [found, *found["alternatives"]]:
            assert context[one["start"] : one["end"]] == one["answer"]
            assert 0 < one["score"] <= 1
    assert ours[1]["answer"] == theirs[1]["answer"] == ""
    for bad in ("text", {"question": "Who?"}, {"question": 3, "context": "a"}):
        with pytest.raises(errors.DataError, match=r"^instance 2: "):
            models[0].check([asked[0], bad])


@pytest.mark.parametrize(("doc_stride", "num_cut"), [(24, 0), (56, 10)])
def test_answers_that_no_window_shows_are_counted(doc_stride, num_cut):
    config = question_answering_dataloader.QADataConfig(
        input_path=bundled_corpora.find_file("bundled:questions/validation.json.gz"),
        vocab_file=bundled_corpora.find_file(VOCABULARY),
        seq_length=56, query_length=24, doc_stride=doc_stride,
        version_2_with_negative=True, do_lower_case=False,
    )  # fmt: skip
    questions, windows = question_answering_dataloader.read_windows(config)

    assert len(questions) == 360
    assert question_answering_dataloader.count_cut(questions, windows) == num_cut
