import gzip
import tracemalloc

import numpy as np
import pytest
import tensorflow as tf

from quintain.cli import main
from quintain.nlp.data import pretrain_dataloader, tokenizers
from quintain.nlp.data.masked import bert_vocabulary, mlm_records

GERMAN = [f"das Haus mit der Nummer {number}" for number in range(200)]
FRENCH = [f"la maison {number}" for number in range(40)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    (folder / "de1.txt").write_text("\n".join(GERMAN[:100]) + "\n")
    (folder / "de2.txt.gz").write_bytes(gzip.compress("\n".join(GERMAN[100:]).encode()))
    (folder / "fr.txt").write_text("\n\n".join(FRENCH))
    tokenizers.train_sentencepiece(
        GERMAN + FRENCH,
        str(folder / "v.model"),
        vocab_size=100,
        control_symbols=bert_vocabulary.SPECIAL_TOKENS,
    )
    return folder


@pytest.fixture
def run(folder, tmp_path):
    def run(*arguments, inputs=("de={}/de*", "fr={}/fr.txt")):
        flags = [f"--input={path.format(folder)}" for path in inputs]
        flags += [f"--vocab-file={folder}/v.model", f"--output={tmp_path}/out/r"]
        return main.run(["data", "mlm", *flags, "--seq-length=32", *arguments])

    return run


def load(tmp_path, **fields):
    params = pretrain_dataloader.BertPretrainDataConfig(
        input_path=str(tmp_path / "out" / "r-*.tfrecord"),
        is_training=False,
        global_batch_size=10_000,
        seq_length=32,
        **({"max_predictions_per_seq": 76, "use_next_sentence_label": False} | fields),
    )
    (batch,) = pretrain_dataloader.BertPretrainDataLoader(params).load()
    return {name: value.numpy() for name, value in batch.items()}


def restore_ids(batch):
    ids = batch["input_word_ids"].copy()
    rows, places = np.nonzero(batch["masked_lm_weights"])
    ids[rows, batch["masked_lm_positions"][rows, places]] = batch["masked_lm_ids"][rows, places]
    return ids


@pytest.mark.slow
def test_text_of_several_languages_becomes_records_that_train(run, folder, tmp_path, capfd):
    code = run("--num-shards=3")

    assert code == 0
    output = capfd.readouterr().out
    assert "de: 200 texts" in output
    assert "fr: 40 texts, 40 examples" in output
    assert len(list((tmp_path / "out").iterdir())) == 3
    batch = load(tmp_path)
    vocabulary = bert_vocabulary.load(str(folder / "v.model"), "SentencePiece", lower_case=True)
    ids = restore_ids(batch)
    tokens = np.sort(ids[~vocabulary.is_special[ids]])
    texts = vocabulary.tokenize(tf.constant(GERMAN + FRENCH)).flat_values.numpy()
    np.testing.assert_array_equal(tokens, np.sort(texts[~vocabulary.is_special[texts]]))
    assert (ids[:, 0] == vocabulary.cls_id).all()
    np.testing.assert_array_equal(batch["input_mask"], ids != 0)
    assert (batch["masked_lm_weights"].sum(axis=1) >= 1).all()


def test_the_same_text_gives_the_same_records(run, tmp_path):
    run()
    path = next((tmp_path / "out").iterdir())
    first = path.read_bytes()
    run()
    second = path.read_bytes()
    run("--seed=1")

    assert first == second
    assert first != path.read_bytes()


def test_small_languages_can_be_written_more_often(run, tmp_path, capfd):
    run()
    before = capfd.readouterr().out
    run("--smoothing=0.01", "--dupe-factor=2")
    after = capfd.readouterr().out

    counts = [[int(line.split()[-2]) for line in text.splitlines()[:2]] for text in (before, after)]
    assert counts[0][1] == 40
    assert counts[1][0] == 2 * counts[0][0]
    assert abs(counts[1][1] - counts[1][0]) <= 0.2 * counts[1][0]


@pytest.mark.slow
def test_pairs_are_written(run, tmp_path):
    run("--next-sentence", "--use-v2-feature-names", "--dupe-factor=5")

    batch = load(tmp_path, use_next_sentence_label=True, use_v2_feature_names=True)

    labels = batch["next_sentence_labels"]
    assert 0.3 < labels.mean() < 0.7
    ids = restore_ids(batch)
    assert ((ids == ids[0][batch["input_mask"][0].sum() - 1]).sum(axis=1) == 2).all()
    assert (batch["input_type_ids"].max(axis=1) == 1).all()


@pytest.mark.slow
def test_a_bad_line_is_named_and_can_be_left_out(run, tmp_path, capfd):
    path = tmp_path / "bad.txt"
    path.write_bytes(b"good line\nb\xffd line\n" + b"long " * 20_000 + b"\n\xf0\x9f\x98\x80\n")

    refused = run(inputs=[str(path)])
    message = capfd.readouterr().err
    skipped = run("--skip-bad", inputs=[str(path)])

    assert refused == main.EXIT_BAD_INPUT
    assert "bad.txt:2: byte 0xff is not UTF-8" in message
    assert skipped == 0
    assert "Left out 1 lines" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["/nowhere/x.txt"], "--input: no file '/nowhere/x.txt'"),
        (["{}/v.model.txt"], "Did you mean"),
    ],
)
def test_wrong_inputs_are_named(run, inputs, message, capfd):
    assert run(inputs=inputs) == main.EXIT_BAD_INPUT
    assert message in capfd.readouterr().err


@pytest.fixture
def many_buckets(monkeypatch):
    """Leaves so little memory that everything is written in pieces."""
    monkeypatch.setattr(mlm_records, "_BUCKET_BYTES", 500)


@pytest.mark.slow
def test_more_text_than_memory_gives_the_same_examples_in_another_order(
    run, tmp_path, many_buckets, monkeypatch
):
    assert run() == 0
    in_pieces = restore_ids(load(tmp_path)).tolist()
    assert run() == 0
    again = restore_ids(load(tmp_path)).tolist()
    monkeypatch.undo()
    assert run() == 0
    at_once = restore_ids(load(tmp_path)).tolist()

    assert in_pieces == again
    assert in_pieces != at_once
    assert sorted(in_pieces) == sorted(at_once)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["r-00000-of-00001.tfrecord"]


@pytest.mark.long("Much text: tests/nlp/data/masked has it in small")
@pytest.mark.slow
def test_pairs_are_found_in_pieces_too(run, tmp_path, many_buckets):
    assert run("--next-sentence", "--dupe-factor=3") == 0

    labels = load(tmp_path, use_next_sentence_label=True)["next_sentence_labels"]
    assert 0.3 < labels.mean() < 0.7


def measure_memory(run, tmp_path, num_lines):
    """Returns the most memory of Python and NumPy that writing records took, in bytes."""
    (tmp_path / "long.txt").write_text("das Haus mit der Nummer 7\n" * num_lines)
    tracemalloc.start()
    code = run(inputs=[f"{tmp_path}/long.txt"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert code == 0
    return peak


@pytest.mark.long("Much text: tests/nlp/data/masked has it in small")
@pytest.mark.slow
def test_memory_does_not_grow_with_the_text(run, tmp_path, monkeypatch):
    monkeypatch.setattr(mlm_records, "_BUCKET_BYTES", 2**13)
    monkeypatch.setattr(mlm_records, "_CHUNK", 64)
    measure_memory(run, tmp_path, 100)  # What is imported or traced once.

    short, long = (measure_memory(run, tmp_path, count) for count in (500, 4_000))

    assert long < 1.3 * short
