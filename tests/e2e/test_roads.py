"""The whole road of translation at a tiny size: from a corpus to an answer over HTTP."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROAD = pathlib.Path(__file__).parents[2] / "examples" / "translation_road.sh"
LAYERS = "{num_layers: 1, num_attention_heads: 2, intermediate_size: 64}"
SETTINGS = {
    "STEPS": "30",
    "NUM_AVERAGED": "2",
    "BEAM_SIZE": "2",
    "NUM_LINES": "3",
    "TRAIN_SET": f"task.model.encoder={LAYERS},task.model.decoder={LAYERS},"
    "task.model.embedding_width=32,task.vocab_size=120,task.train_data.global_batch_size=512,"
    "task.model.decode_max_length=12,trainer.steps_per_loop=10,trainer.checkpoint_interval=10,"
    "trainer.summary_interval=10,trainer.validation_interval=30",
}


def walk(*arguments, road=ROAD, **settings):
    """Runs the example, and returns what it wrote to standard output."""
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        [str(road), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **SETTINGS, **settings, "PATH": path, "PORT": "0"},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def read_rows(path):
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.slow
@pytest.mark.e2e
def test_the_road_leads_from_a_corpus_to_an_answer(tmp_path, is_long):
    directory = tmp_path / "a b"
    output = walk(directory)

    assert "Averaged 2 checkpoints" in output
    assert (directory / "run" / "averaged" / "translations" / "step-30.tsv").exists()
    sources = [row[0] for row in read_rows(directory / "test.tsv")[:3]]
    translations = (directory / "translation.txt").read_text(encoding="utf-8").splitlines()
    assert [row[0] for row in read_rows(directory / "source.txt")] == sources
    assert len(translations) == 3
    answer, health = map(json.loads, (directory / "answer.txt").read_text().splitlines())
    assert [set(one) for one in answer["translations"]] == [{"text", "score"}] * 2
    assert health == {"status": "ok", "waiting": 0}

    if is_long:  # the same with files of one's own
        pairs = tmp_path / "pairs.tsv"
        pairs.write_text("red house\trotes Haus\ngreen tree\tgrüner Baum\n" * 20, encoding="utf-8")
        walk(tmp_path / "own", *[pairs] * 3, TRAIN_SET=SETTINGS["TRAIN_SET"].replace("=120", "=40"))
        lines = (tmp_path / "own" / "source.txt").read_text(encoding="utf-8").splitlines()
        assert lines == ["red house", "green tree", "red house"]


@pytest.mark.long("the tests of each task train, export and serve it")
@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("electra", '{"predictions":['),
        ("dual_encoder", '{"vectors":[['),
        ("tagging", '"words":["Grustin","Lomen",'),
        ("squad", '{"predictions":[{"answer":'),
        ("image", "top_labels"),
        ("tabular", '{"predictions":['),
        ("fine_tuning", '"chat.completion.chunk"'),
    ],
)
def test_the_road_of_a_task_leads_to_an_answer(tmp_path, name, answer):
    directory = tmp_path / "a ü"
    few = {f"{part}STEPS": "20" for part in ("", "TRAIN_", "PRETRAIN_", "FINETUNE_", "ADAPTER_")}
    few |= dict.fromkeys(("SET", "TRAIN_SET"), "trainer.steps_per_loop=5")

    walk(directory, road=ROAD.with_name(f"{name}_road.sh"), **few)

    found = (directory / "answer.txt").read_text(encoding="utf-8")
    assert answer in found
    assert found.endswith('{"status":"ok","waiting":0}\n')
    predictions = {"image": 100, "tabular": 500}.get(name, 0)
    if predictions:
        assert (directory / "predictions.jsonl").read_text().count("\n") == predictions
