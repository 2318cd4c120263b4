import gzip

import pytest

from quintain.cli import main

LINES = [f"the number {number} and the letter {chr(97 + number % 26)}" for number in range(300)]


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(LINES[:150]) + "\n")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress("\n".join(LINES[150:]).encode()))
    return f"{tmp_path}/a.txt,{tmp_path}/b.txt.*"


def _run(*arguments):
    return main.run(["data", "sentencepiece", *arguments])


def test_a_vocabulary_is_trained_from_files(corpus, tmp_path, capfd):
    code = _run(f"--input={corpus}", f"--output={tmp_path}/v.model", "--vocab-size=80")

    assert code == 0
    assert f"Wrote {tmp_path}/v.model and {tmp_path}/v.vocab." in capfd.readouterr().out
    tokens = [line.split("\t")[0] for line in (tmp_path / "v.vocab").read_text().splitlines()]
    assert tokens[:3] == ["<pad>", "</s>", "<unk>"]
    assert "<s>" not in tokens
    assert len(tokens) <= 80


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected one of the two"),
        (["--input=x", "--tfds-name=y"], "expected one of the two"),
        (["--tfds-name=y"], "--features: missing"),
        (["--input=/nowhere/x.txt"], "input: no file '/nowhere/x.txt'"),
    ],
)
def test_wrong_arguments_are_named(arguments, message, tmp_path, capfd):
    code = _run(*arguments, f"--output={tmp_path}/v.model")

    assert code == main.EXIT_BAD_INPUT
    assert message in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


def test_tokens_that_no_text_gives_can_be_added(corpus, tmp_path):
    flags = ["--vocab-size=80", "--control-symbols=[CLS], [SEP],[MASK]"]

    code = _run(f"--input={corpus}", f"--output={tmp_path}/v.model", *flags)

    assert code == 0
    tokens = [line.split("\t")[0] for line in (tmp_path / "v.vocab").read_text().splitlines()]
    assert tokens[:6] == ["<pad>", "</s>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
