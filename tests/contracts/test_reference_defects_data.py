"""Defects 12, 14 and 15 of the reference: data left out, side effects of imports, translation."""

import pytest
import sentencepiece
import tensorflow as tf

from quintain.core import config_definitions as cfg
from quintain.core import input_reader
from quintain.nlp.data import tokenizers, wmt_dataloader
from quintain.nlp.tasks import translation

_PAIRS = [(f"the number {i} and more", f"die Zahl {i} und mehr") for i in range(64)]


# 12: drop_remainder=True by default, in evaluation too: the tail is silently not evaluated


def test_defect_12_evaluation_keeps_the_tail_by_default(tmp_path):
    path = str(tmp_path / "numbers.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for number in range(11):
            writer.write(str(number).encode())
    params = cfg.DataConfig(input_path=path, global_batch_size=4, is_training=False)
    assert params.drop_remainder

    batches = list(input_reader.InputReader(params).read())

    assert [len(batch) for batch in batches] == [4, 4, 3]


@pytest.mark.slow
def test_defect_12_two_replicas_evaluate_the_tail_once(run_program, tmp_path):
    sizes = (9, 10, 12)
    paths = [str(tmp_path / f"{size}.tfrecord") for size in sizes]
    for path, size in zip(paths, sizes, strict=True):
        with tf.io.TFRecordWriter(path) as writer:
            for number in range(size):
                writer.write(str(number).encode())

    counts = run_program("count_on_replicas.py", *paths)

    assert counts == [[size, sum(range(size))] for size in sizes]


# 14: importing changes YAML's loaders and representers for the whole process


@pytest.mark.slow
def test_defect_14_importing_and_using_the_package_leaves_yaml_as_it_was(run_program):
    assert run_program("compare_yaml.py", is_fresh=True) == []


# 15: translation needs a logging_dir, evaluates a batch of nothing, takes EOS to be 1, prints, and
# keeps the references of the whole validation set


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("translation")
    (directory / "pairs.tsv").write_text(
        "".join(f"{source}\t{target}\n" for source, target in _PAIRS)
    )
    (directory / "text").write_text("\n".join(side for pair in _PAIRS for side in pair))
    sentencepiece.SentencePieceTrainer.train(
        input=str(directory / "text"),
        model_prefix=str(directory / "eos_is_5"),
        vocab_size=60,
        hard_vocab_limit=False,
        pad_id=0, unk_id=1, bos_id=2, eos_id=5,
        user_defined_symbols=["<a>", "<b>"],
        minloglevel=2,
    )  # fmt: skip
    return directory


@pytest.fixture
def task(directory):
    config = translation.TranslationConfig(
        sentencepiece_model_path=str(directory / "eos_is_5.model"),
        validation_data=wmt_dataloader.WMTDataConfig(
            input_path=str(directory / "pairs.tsv"), is_training=False, global_batch_size=16
        ),
    )
    config.override(
        {
            "model": {
                "embedding_width": 8,
                "beam_size": 1,
                "decode_max_length": 3,
                "encoder": {"num_layers": 1, "num_attention_heads": 2, "intermediate_size": 8},
                "decoder": {"num_layers": 1, "num_attention_heads": 2, "intermediate_size": 8},
            }
        }
    )
    return translation.TranslationTask(config)


@pytest.mark.slow
def test_defect_15_evaluation_needs_no_directory_and_prints_nothing(task, capfd):
    model = task.build_model()
    batch = next(iter(task.build_inputs(task.task_config.validation_data)))
    capfd.readouterr()

    state = task.aggregate_logs(None, task.validation_step(dict(batch), model))
    logs = task.reduce_aggregated_logs(state)

    assert set(state) == set(range(16))
    assert 0 <= logs["sacrebleu_score"] <= 100
    assert task.logging_dir == ""
    assert capfd.readouterr().out == ""


def test_defect_15_there_is_no_batch_of_nothing(task):
    batches = list(task.build_inputs(task.task_config.validation_data))

    assert [len(batch["unique_id"]) for batch in batches] == [16, 16, 16, 16]


@pytest.mark.parametrize("max_seq_length", [4, 64])
def test_defect_15_the_end_of_a_sentence_is_that_of_the_vocabulary(task, directory, max_seq_length):
    tokenizer = tokenizers.SentencePieceTokenizer(str(directory / "eos_is_5.model"))
    params = task.task_config.validation_data.replace(max_seq_length=max_seq_length)

    batch = next(iter(task.build_inputs(params)))

    for side in ("inputs", "targets"):
        lengths = tf.math.count_nonzero(batch[side], axis=1)
        last = tf.gather(batch[side], lengths - 1, batch_dims=1)
        assert set(last.numpy().tolist()) == {5} == {tokenizer.eos_id}
        assert int(tf.reduce_max(lengths)) <= max_seq_length
    assert task.build_model().eos_id == 5


@pytest.mark.slow
def test_defect_15_the_source_is_encoded_once_for_loss_and_search(task, monkeypatch):
    model = task.build_model()
    batch = next(iter(task.build_inputs(task.task_config.validation_data)))
    calls = []
    encode = model.encoder.call
    monkeypatch.setattr(
        model.encoder, "call", lambda *args, **kwargs: calls.append(1) or encode(*args, **kwargs)
    )

    logs = task.validation_step(batch, model)
    assert len(calls) == 1

    decoded = task.inference_step({"inputs": batch["inputs"]}, model)
    logits = model({"inputs": batch["inputs"], "targets": batch["targets"]}, training=False)
    assert tf.reduce_all(logs["outputs"] == decoded["outputs"])
    assert float(logs["loss"]) == float(task.build_losses(batch["targets"], logits))


def test_defect_15_a_step_does_not_change_its_inputs(task):
    batch = next(iter(task.build_inputs(task.task_config.validation_data)))

    task.validation_step(batch, task.build_model())

    assert sorted(batch) == ["inputs", "targets", "unique_id"]


@pytest.mark.slow
def test_defect_15_no_copy_of_the_validation_data_is_written_or_kept(task, directory):
    files = sorted(path.name for path in directory.iterdir())

    batch = next(iter(task.build_inputs(task.task_config.validation_data)))
    task.reduce_aggregated_logs(
        task.aggregate_logs(None, task.validation_step(batch, task.build_model()))
    )

    assert sorted(path.name for path in directory.iterdir()) == files
    kept = [value for value in vars(task).values() if isinstance(value, (list, tuple, dict, set))]
    assert all(len(value) < len(_PAIRS) for value in kept)
