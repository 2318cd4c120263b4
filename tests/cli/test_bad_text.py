"""Text that nobody would write on purpose: trained on, or refused in one line, never a crash."""

import gzip
import json

import pytest
import tensorflow as tf

from quintain.nlp.data import tokenizers
from quintain.nlp.data.masked import bert_vocabulary

GOOD = [f"the house number {number} is big" for number in range(40)]
ODD = [
    "", "   ", "\u2028", "\x85", "\r", "\x1c", "\ufeff", "\0", "a" * 100_000, "ab cd " * 17_000,
    "مرحبا بالعالم", "שלום 😀👩‍👩‍👧", "a\0b", "a\u2028b\x85c", "a\rb", "𐎀𐎁𐎂", "\u200b\u202e",
]  # fmt: skip
CASES = {
    "a byte that is no text": ("bad:3: byte 0xe9 is not UTF-8", b"caf\xe9\tKaffee"),
    "one column": ("bad:3: got 0 tabs, expected exactly one", b"coffee"),
    "three columns": ("bad:3: got 2 tabs, expected exactly one", b"a\tb\tc"),
}
BERT = ",".join(
    f"{name}={value}"
    for name, value in {
        "task.model.encoder.bert.vocab_size": 80,
        "task.model.encoder.bert.hidden_size": 8,
        "task.model.encoder.bert.num_layers": 1,
        "task.model.encoder.bert.num_attention_heads": 2,
        "task.model.encoder.bert.intermediate_size": 8,
        "trainer.steps_per_loop": 2,
        "trainer.summary_interval": 2,
        "trainer.checkpoint_interval": 2,
        "trainer.validation_interval": 2,
        "trainer.validation_steps": 1,
        "trainer.train_steps": 2,
    }.items()
)


@pytest.fixture
def write(tmp_path):
    """Writes lines to a file, compressed if its name says so."""

    def write(name, lines):
        data = b"".join(
            (line if isinstance(line, bytes) else line.encode()) + b"\n" for line in lines
        )
        path = tmp_path / name
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("v") / "v.model")
    tokenizers.train_sentencepiece(
        GOOD, path, vocab_size=70, control_symbols=bert_vocabulary.SPECIAL_TOKENS
    )
    return path


def is_one_error(result, *parts):
    """Whether a run ended in one line that says all parts."""
    code, _, stderr = result
    (line,) = [line for line in stderr.splitlines() if not line.startswith("Warning:")]
    assert all(part in line for part in ("Error: ", *parts)), stderr
    return code == 2


@pytest.fixture
def train_translation(quintain, tiny, tmp_path, write):
    valid = write("valid.tsv", [f"{line}\t{line}" for line in GOOD[:8]])

    def train(train_data, *flags):
        return quintain(
            "train", "--experiment=translation/small", tiny, f"--model-dir={tmp_path / 'run'}",
            f"--set=task.train_data.input_path={train_data}", "--set=task.vocab_size=60",
            f"--set=task.validation_data.input_path={valid}", "--quiet", "--json", *flags,
        )  # fmt: skip

    return train


def pair_up(lines):
    return [f"{line}\t{line}" for line in lines]


@pytest.mark.long("Further cases of a test of which some run every time", but=[".tsv"])
@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".tsv", ".tsv.gz"])
def test_translation_trains_on_odd_pairs_held_or_streamed(train_translation, write, suffix):
    usable = [line for line in ODD if "\r" not in line]
    path = write(f"odd{suffix}", ["", *pair_up([*GOOD, *usable]), *ODD[:6]])
    streamed = f"{{a: {{path: '{path}', weight: 1}}, b: {{path: '{path}', weight: 2}}}}"

    code, stdout, stderr = train_translation(streamed if suffix == ".tsv.gz" else path)

    assert code == 0, stderr
    assert json.loads(stdout)["step"] == 4


@pytest.mark.parametrize("suffix", [".tsv", ".tsv.gz"])
@pytest.mark.parametrize("case", CASES)
def test_translation_names_the_wrong_line(train_translation, write, case, suffix):
    message, line = CASES[case]
    path = write(f"bad{suffix}", [*pair_up(GOOD[:2]), line, *pair_up(GOOD)])

    assert is_one_error(train_translation(path), message.replace("bad", f"bad{suffix}"))


@pytest.mark.parametrize("suffix", [".txt", ".txt.gz"])
def test_translation_of_aligned_text_names_the_wrong_line(train_translation, write, suffix):
    source, target = write(f"s{suffix}", GOOD), write(f"t{suffix}", [*GOOD[1:], b"caf\xe9"])

    result = train_translation(source, f"--set=task.train_data.target_path={target}")

    assert is_one_error(result, f"t{suffix}:40: byte 0xe9 is not UTF-8")


def test_translation_of_nothing_but_control_characters_is_refused(train_translation, write):
    result = train_translation(write("a.tsv", ["\0\t\0", "\x01\t\x02"]))

    assert is_one_error(result, "only spaces and control characters")


@pytest.mark.slow
def test_a_checkpoint_of_another_architecture_is_refused(train_translation, write, tmp_path):
    other = tf.train.Checkpoint(model=tf.Module(), weights=tf.Variable([1.0, 2.0]))
    checkpoint = other.save(str(tmp_path / "other" / "ckpt"))
    data = write("train.tsv", pair_up(GOOD))

    code, _, stderr = train_translation(data, f"--set=task.init_checkpoint={checkpoint}")

    assert code == 2
    assert "Error: task.init_checkpoint: " in stderr
    assert f"{checkpoint}' does not fit" in stderr
    assert "It is of a model with other settings, or of another vocabulary." in stderr
    assert "Traceback" not in stderr


@pytest.fixture
def train_bert(quintain, tmp_path):
    def train(experiment, settings, *flags):
        (tmp_path / "a.yaml").write_text(f"task: {settings}\n")
        return quintain(
            "train", f"--experiment={experiment}", "--quiet", "--json",
            f"--config-file={tmp_path / 'a.yaml'}", f"--params-override={BERT}",
            f"--model-dir={tmp_path / 'run'}", *flags,
        )  # fmt: skip

    return train


@pytest.fixture
def train_classifier(train_bert, vocab_file):
    def train(path, *flags):
        data = (
            f"{{input_path: '{path}', vocab_file: '{vocab_file}', tokenization: SentencePiece, "
            "text_fields: [text], seq_length: 16, global_batch_size: 4}"
        )
        settings = f"{{model: {{num_classes: 2}}, train_data: {data}, validation_data: {data}}}"
        return train_bert("bert/sentence_prediction_text", settings, *flags)

    return train


@pytest.mark.long("Translation shows it from end to end, and each loader has its tests")
@pytest.mark.slow
def test_a_classifier_trains_on_odd_texts(train_classifier, write):
    texts = [f"{line}\t1" for line in [*GOOD[:4], *ODD]]

    code, stdout, stderr = train_classifier(write("odd.tsv.gz", ["text\tlabel", *texts, *ODD[:6]]))

    assert code == 0, stderr
    assert json.loads(stdout)["step"] == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"caf\xe9\t1", "bad.tsv:3: byte 0xe9 is not UTF-8"),
        (b"coffee", "bad.tsv:3: got 1 columns, expected the 2 of text, label"),
        (b"a\tb\t1", "bad.tsv:3: got 3 columns, expected the 2 of text, label"),
        (b"a\t2", "bad.tsv:3: label: got 2, expected a class from 0 to 1"),
        (b"a\t-1", "bad.tsv:3: label: got -1, expected a class from 0 to 1"),
        ("a\t\u0661".encode(), "bad.tsv:3: label: got '\u0661', expected a whole number"),
    ],
)
def test_a_classifier_names_the_wrong_line(train_classifier, write, line, message):
    path = write("bad.tsv", ["text\tlabel", "good\t1", line, "good\t0"])

    assert is_one_error(train_classifier(path), message)


@pytest.fixture
def train_pretraining(train_bert, vocab_file):
    def train(path, *flags):
        data = (
            f"{{input_path: '{path}', vocab_file_path: '{vocab_file}', seq_length: 16, "
            "max_predictions_per_seq: 4, global_batch_size: 4}"
        )
        settings = f"{{train_data: {data}, validation_data: {data}}}"
        return train_bert("bert/pretraining_text", settings, *flags)

    return train


@pytest.mark.long("Translation shows it from end to end, and each loader has its tests")
@pytest.mark.slow
def test_pretraining_takes_odd_texts(train_pretraining, write):
    code, stdout, stderr = train_pretraining(write("odd.txt.gz", [*GOOD, *ODD]))

    assert code == 0, stderr
    assert json.loads(stdout)["step"] == 2


@pytest.mark.parametrize("name", ["bad.txt", "bad.txt.gz"])
def test_pretraining_names_the_wrong_line(train_pretraining, write, name):
    path = write(name, [*GOOD, b"caf\xe9", *GOOD])

    assert is_one_error(train_pretraining(path), f"{name}:41: byte 0xe9 is not UTF-8")


@pytest.mark.slow
def test_pretraining_on_no_text_is_refused_instead_of_waiting(train_pretraining, write):
    result = train_pretraining(write("none.txt", ["", "\x01", "\u200b"]))

    assert is_one_error(result, "none.txt", "whose text has no token of the vocabulary")


@pytest.mark.parametrize("tokenization", ["SentencePiece", "WordPiece"])
def test_masked_records_are_written_of_odd_texts(
    quintain, write, tmp_path, vocab_file, tokenization
):
    words = write("words.txt", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "house", "a"])
    texts = [line for line in ODD if len(line) < 1_000]

    code, stdout, stderr = quintain(
        "data", "mlm", f"--input={write('odd.txt', [*GOOD, *texts])}", "--seq-length=16",
        f"--vocab-file={vocab_file if tokenization == 'SentencePiece' else words}",
        f"--tokenization={tokenization}", f"--output={tmp_path / 'out' / 'r'}", "--next-sentence",
    )  # fmt: skip

    assert code == 0, stderr
    assert "Wrote" in stdout
