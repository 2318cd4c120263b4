import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.cli import main
from quintain.core import exp_factory, task_factory
from quintain.nlp import experiments
from quintain.nlp.configs import encoders
from quintain.nlp.data import tagging_dataloader
from quintain.nlp.data.corpora import bundled_corpora
from quintain.nlp.data.labelled_tokens import tagged_sentences, token_examples
from quintain.nlp.data.masked import bert_vocabulary
from quintain.nlp.tasks import tagging
from quintain.serving import served_model

NAMES = ["O", "B-PER", "I-PER"]
VOCABULARY = "bundled:names_and_places/vocabulary.txt"


def make_task(**fields):
    data = tagging_dataloader.TaggingDataConfig(input_path="dummy", seq_length=8)
    sizes = {"vocab_size": 2_000, "hidden_size": 8, "num_layers": 1, "num_attention_heads": 2}
    encoder = encoders.BertEncoderConfig(
        intermediate_size=16, max_position_embeddings=64, dropout_rate=0.0, **sizes
    )
    config = tagging.TaggingConfig(
        model=tagging.ModelConfig(encoder=encoders.EncoderConfig(bert=encoder)),
        **({"class_names": NAMES, "train_data": data, "validation_data": data} | fields),
    )
    return task_factory.get_task(config)


def test_the_loss_is_the_mean_over_all_labels():
    logits = np.array([[[1.0, 0.0, 2.0], [9.0, 9.0, 9.0]], [[0.0, 0.0, 0.0], [3.0, 1.0, 0.0]]])
    labels = tf.constant([[2, -1], [1, 0]])

    loss = make_task().build_losses(labels, {"logits": logits}, [tf.constant(2.0)])

    odds = np.exp(logits)
    rows = [odds[0, 0] / odds[0, 0].sum(), odds[1, 0] / 3, odds[1, 1] / odds[1, 1].sum()]
    expected = -np.log([rows[0][2], rows[1][1], rows[2][0]]).mean() + 2.0
    assert float(loss) == pytest.approx(expected, rel=1e-6)
    assert float(make_task().build_losses(tf.fill([1, 2], -1), tf.zeros([1, 2, 3]))) == 0.0


def test_scores_count_entities_of_all_steps_and_replicas():
    task = make_task()
    first = {
        "predict_ids": (tf.constant([[1, 2, 0]]), tf.constant([[0, 0, 0]])),
        "label_ids": (tf.constant([[1, 2, -1]]), tf.constant([[0, 1, 0]])),
    }
    second = {"predict_ids": tf.constant([[1, 1, 0]]), "label_ids": tf.constant([[1, 0, -1]])}

    scores = task.reduce_aggregated_logs(
        task.aggregate_logs(task.aggregate_logs(None, first), second)
    )

    assert scores == pytest.approx(
        {"f1": 2 / 3, "precision": 2 / 3, "recall": 2 / 3, "accuracy": 5 / 7}
    )


@pytest.mark.parametrize("names", [None, [], ["O", "O"]])
def test_classes_need_different_names(names):
    with pytest.raises(errors.ConfigError, match=r"task\.class_names: got"):
        make_task(class_names=names)


def test_the_experiments_of_the_reference_have_its_settings():
    assert experiments.fine_tuning
    config = exp_factory.get_exp_config("bert/tagging")

    rate = config.trainer.optimizer_config.learning_rate.polynomial
    assert (rate.initial_learning_rate, rate.end_learning_rate) == (8e-5, 0.0)
    assert (config.task.train_data.seq_length, config.task.model.head_dropout) == (128, 0.1)
    assert not config.task.validation_data.drop_remainder


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Text in columns, and records of it by the command."""
    directory = tmp_path_factory.mktemp("Wörter und Namen")
    text = "Anna\tB-PER\nAlbers\tI-PER\nwrote\tO\n.\tO\n\nIt\tO\nrained\tO\n\n" * 6
    (directory / "text.conll").write_text(text)
    code = main.run(
        ["data", "tagging", f"--input={directory}/text.conll", f"--vocab-file={VOCABULARY}",
         f"--output={directory}/a b.tfrecord", "--seq-length=16", "--nolower-case"]
    )  # fmt: skip
    assert code == 0
    return directory


def test_text_and_its_records_give_the_same_batches(files):
    options = {"seq_length": 16, "is_training": False, "global_batch_size": 3}
    options |= {"vocab_file": VOCABULARY, "lower_case": False, "include_sentence_id": True}
    task = make_task()

    text, records = (
        list(
            task.build_inputs(
                tagging_dataloader.TaggingDataConfig(input_path=str(files / name), **options)
            )
        )
        for name in ("text.conll", "a b.tfrecord")
    )

    assert len(text) == len(records) == 4
    for (features, labels), (others, other_labels) in zip(text, records, strict=True):
        np.testing.assert_array_equal(labels, other_labels)
        assert sorted(features) == sorted(others)
        for name, value in features.items():
            np.testing.assert_array_equal(value, others[name])
    predicted = tagging.predict(
        task,
        tagging_dataloader.TaggingDataConfig(input_path=str(files / "text.conll"), **options),
        task.build_model(),
    )
    assert [one[:2] for one in predicted] == [(number, 0) for number in range(12)]
    assert [len(one[2]) for one in predicted] == [4, 2] * 6


def test_a_label_beyond_the_classes_stops_a_run_with_its_record(files):
    data = tagging_dataloader.TaggingDataConfig(
        input_path=str(files / "a b.tfrecord"), seq_length=16
    )

    with pytest.raises(
        errors.DataError, match=r"a b.tfrecord: record 1: label_ids: got 1, exp.*-1"
    ):
        make_task(class_names=["O"]).build_inputs(data)


@pytest.fixture(scope="module")
def run(files):
    """A run of four steps on text."""
    sizes = "hidden_size=8,num_layers=1,num_attention_heads=2,intermediate_size=8"
    bert = ",".join(f"task.model.encoder.bert.{one}" for one in sizes.split(","))
    path = f"{files}/text.conll"
    arguments = [
        "train", "--experiment=tagging/local", f"--model-dir={files}/run", "--quiet",
        f"--params_override={bert},trainer.train_steps=4,trainer.checkpoint_interval=2,"
        "trainer.steps_per_loop=2,trainer.validation_interval=4,task.class_names=[O,B-PER,I-PER],"
        "task.train_data.seq_length=16,task.validation_data.seq_length=16,trainer.summary_interval=2,"
        f"task.train_data.input_path={path},task.validation_data.input_path={path}",
    ]  # fmt: skip
    assert main.run(arguments) == 0
    return files / "run"


@pytest.mark.slow
def test_a_run_goes_on_from_a_checkpoint_to_the_bit(run, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in run.iterdir():
        if file.is_file() and "-4." not in file.name and file.name != "checkpoint":
            (copy / file.name).write_bytes(file.read_bytes())

    assert main.run(["train", f"--model-dir={copy}", "--quiet"]) == 0

    ours, theirs = (tf.train.load_checkpoint(str(one / "ckpt-4")) for one in (run, copy))
    names = [name for name in ours.get_variable_to_shape_map() if "/.ATTRIBUTES/VARIABLE" in name]
    weights = [name for name in names if name.startswith("model/")]
    assert weights
    for name in weights:
        np.testing.assert_array_equal(ours.get_tensor(name), theirs.get_tensor(name))
    scores = [
        json.loads((one / "evaluations.jsonl").read_text().splitlines()[-1]) for one in (run, copy)
    ]
    assert scores[0]["metrics"] == scores[1]["metrics"]


@pytest.mark.slow
def test_a_run_and_its_export_label_words_with_their_places(run, capsys):
    text = "Anna, ärgerlich & Bo-Bo 🙂 wrote. " + "it " * 40
    assert main.run(["export", f"--model-dir={run}", f"--output={run}/ex port"]) == 0

    models = [served_model.load(str(one)) for one in (run, run / "ex port")]
    ours, theirs = (model.run(model.check([text, ["Bo Bo", "wrote"], ""])) for model in models)
    capsys.readouterr()
    assert main.run(["predict", f"--model-dir={run}/ex port", text, '["Bo Bo", "wrote"]']) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert [one["labels"] for one in ours] == [one["labels"] for one in theirs]
    assert [one["labels"] for one in printed] == [one["labels"] for one in ours[:2]]
    assert ours[0]["words"][:7] == ["Anna", ",", "ärgerlich", "&", "Bo-Bo", "🙂", "wrote"]
    assert ours[1]["words"] == ["Bo Bo", "wrote"]
    assert ours[2] == {"entities": [], "words": [], "labels": []}
    assert len(ours[0]["labels"]) == 48  # In several parts.
    for found, whole in ((ours[0], text), (ours[1], "Bo Bo wrote")):
        for entity in found["entities"]:
            assert whole[entity["start"] : entity["end"]] == entity["text"]
            assert 0 < entity["score"] <= 1
    for bad in (3, ["a", " "], "a" * 100_001):
        with pytest.raises(errors.DataError, match=r"^text 2: "):
            models[0].check(["a", bad])


def test_words_are_cut_alike_in_python_and_in_the_graph():
    path = bundled_corpora.find_file(VOCABULARY)
    vocabulary = bert_vocabulary.load(path, "WordPiece", lower_case=False)
    words = ["Bortford,", "zwei", "🙂", "Ännchen"]

    found = token_examples.tokenizer_of(vocabulary)(words)

    assert [one.ids for one in found] == vocabulary.tokenize(tf.constant(words)).to_list()
    for word, tokens in zip(words, found, strict=True):
        assert (tokens.starts[0], tokens.ends[-1]) == (0, len(word))


def test_bundled_sentences_have_other_names_in_each_split():
    root = pathlib.Path(bundled_corpora.find_file("bundled:names_and_places/train.tsv.gz")).parent
    names = []
    for split in ("train", "validation"):
        sentences = list(tagged_sentences.read([str(root / f"{split}.tsv.gz")]))
        assert len(sentences) in (3_000, 400)
        names.append(
            {
                word
                for one in sentences
                for word, label in zip(one.words, one.labels, strict=True)
                if label == "B-PER" and word not in ("May", "June", "April", "August")
            }
        )
    assert not names[0] & names[1]
