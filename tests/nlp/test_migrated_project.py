"""A project of the Model Garden runs after its move, of which only imports are touched."""

import difflib
import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PROJECT = ROOT / "examples" / "migration" / "garden"
PROGRAM = ROOT / "tests" / "programs" / "run_migrated_project.py"


def list_files(directory):
    return {
        path.relative_to(directory): path.read_text(encoding="utf-8")
        for path in directory.rglob("*.*")
        if path.is_file() and path.suffix in (".py", ".yaml", ".gin")
    }


def test_only_imports_differ():
    before, after = (list_files(PROJECT / name) for name in ("before", "after"))

    assert before.keys() == after.keys()
    changes = [
        line
        for name, text in before.items()
        for line in difflib.ndiff(text.splitlines(), after[name].splitlines())
        if line.startswith(("- ", "+ "))
    ]
    assert len(changes) > 50
    assert [line for line in changes if not re.match(r"[-+] (from|import) ", line)] == []


@pytest.mark.long(
    "tests/garden/common/test_train_program.py trains a program of the Model Garden in every run"
)
@pytest.mark.slow
@pytest.mark.e2e
def test_it_trains_and_is_exported(run_python, tmp_path):
    done = run_python(PROGRAM, PROJECT / "after", tmp_path)

    assert done.returncode == 0, done.stderr[-3000:]
    # All sentences of the evaluation, the topic of one, and the shape of its probabilities.
    assert re.fullmatch(r"100 \[\d\] \(1, 5\)", done.stdout.splitlines()[-1])
    run = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"params.yaml", "operative_config.train_and_eval.gin", "ckpt-4.index", "best"} <= run
    gin = (tmp_path / "run" / "operative_config.train_and_eval.gin").read_text(encoding="utf-8")
    assert "TopicTask.log_confusion = False" in gin
    evaluations = (tmp_path / "run" / "evaluations.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["step"] for line in evaluations] == [2, 4]
    assert all("worst_recall" in line for line in evaluations)
