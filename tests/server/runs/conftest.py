"""Directories of runs, as training leaves them."""

import json

import pytest

from quintain.server.runs import run_index

PARAMS = """\
# The settings of a run, written by `quintain train`.
experiment: translation/local
imports: [my_experiments]
task: {model: {embedding_width: 8}}
trainer: {train_steps: 40}
runtime: {seed: 7}
# End of the settings.
"""


def _to_line(step, **metrics):
    return json.dumps({"step": step, "time_secs": 100.0 + step, "metrics": metrics}) + "\n"


@pytest.fixture
def to_line():
    """Returns a function that makes a line of `training.jsonl`."""
    return _to_line


@pytest.fixture
def make_run(tmp_path):
    """Returns a function that makes a run below a folder `runs`, and finds it."""

    def make(name="first", *, steps=(10, 20), params=PARAMS):
        path = tmp_path.resolve() / "runs" / name
        path.mkdir(parents=True)
        (path / "params.yaml").write_text(params)
        lines = [_to_line(step, training_loss=1.0 / step, task={"bleu": step}) for step in steps]
        (path / "training.jsonl").write_text("".join(lines))
        evaluations = [{"step": step, "metrics": {"validation_loss": step / 4}} for step in steps]
        (path / "evaluations.jsonl").write_text("".join(f"{json.dumps(e)}\n" for e in evaluations))
        return run_index.FoundRun(run_index.make_name(path), path.name, path)

    return make
