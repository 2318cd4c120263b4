import itertools
import json
import os
import socket

import pytest

from quintain.checkpoints import run_lock
from quintain.records.rows import codec, training_run
from quintain.server.runs import run_lines, run_reader

RUNNING = training_run.RunProgress.RUNNING
STOPPED = training_run.RunProgress.STOPPED


@pytest.fixture
def reader():
    return run_reader.RunReader()


def hold(path, **holder):
    fields = {"pid": os.getpid(), "host": socket.gethostname(), "command": "quintain train"}
    (path / "run.lock").write_text(json.dumps({**fields, **holder}))


def test_a_summary_tells_how_far_a_run_is(make_run, reader):
    summary = reader.summarize(make_run())

    assert (summary.experiment, summary.task) == ("translation/local", "translation")
    assert (summary.step, summary.train_steps, summary.state) == (20, 40, STOPPED)
    assert summary.metrics == {"training_loss": 0.05, "task|bleu": 20.0, "validation_loss": 5.0}


def test_metrics_of_evaluations_have_ranges_that_grow_and_begin_anew(make_run, reader):
    run = make_run()
    assert reader.summarize(run).ranges == {"validation_loss": (2.5, 5.0)}
    path = run.path / "evaluations.jsonl"
    more = [
        {"step": step, "metrics": {"validation_loss": loss}}
        for step, loss in ((30, None), (40, 9.0))
    ]
    with path.open("a") as file:
        file.writelines(f"{json.dumps(each)}\n" for each in more)
    assert reader.summarize(run).ranges == {"validation_loss": (2.5, 9.0)}
    path.write_text(f"{json.dumps(more[1])}\n")
    assert reader.summarize(run).ranges == {"validation_loss": (9.0, 9.0)}


def test_runs_whose_settings_differ_by_the_seed_only_have_the_same_id(make_run, reader):
    params = make_run().path.joinpath("params.yaml").read_text()
    changes = [("seed: 7", "seed: 8"), ("embedding_width: 8", "embedding_width: 16"), ("", "")]
    runs = [make_run(f"run {at}", params=params.replace(*each)) for at, each in enumerate(changes)]
    (runs[2].path / "config.gin").write_text("f.x = 1")

    first, *others = [reader.summarize(run).settings_id for run in (make_run("again"), *runs)]

    assert [other == first for other in others] == [True, False, False]
    assert len(first) == 16


def test_a_run_at_its_last_step_has_ended(make_run, reader):
    run = make_run(steps=(40,))

    assert reader.summarize(run).state is training_run.RunProgress.ENDED


def test_a_run_is_running_while_the_process_is_there_that_its_lock_names(make_run, reader):
    run = make_run()
    hold(run.path)
    running = reader.describe(run)

    hold(run.path, pid=2**22 + 1)
    ended = reader.describe(run)

    assert (running.run.state, running.holder["command"]) == (RUNNING, "quintain train")
    assert (ended.run.state, ended.holder) == (STOPPED, {})


def test_another_process_of_the_same_number_is_not_the_run(make_run, reader):
    run = make_run()
    hold(run.path, mark="another start of the machine 12")

    assert reader.summarize(run).state is STOPPED


def test_a_run_is_known_by_its_process_whatever_is_done_to_the_clock(make_run, reader):
    run = make_run()
    with run_lock.hold(str(run.path)):
        os.utime(run.path / "run.lock", (1000, 1000))

        assert reader.summarize(run).state is RUNNING


def test_a_lock_of_another_machine_counts_while_something_is_recorded(make_run, reader):
    run = make_run()
    hold(run.path, host="elsewhere")
    recent = reader.summarize(run).state

    for name in ("params.yaml", "training.jsonl", "evaluations.jsonl"):
        os.utime(run.path / name, (1000, 1000))

    assert (recent, reader.summarize(run).state) == (RUNNING, STOPPED)


def test_details_have_settings_checkpoints_and_how_it_was_started(make_run, reader):
    run = make_run()
    (run.path / "best").mkdir()
    for name, size in (
        ("ckpt-20.index", 3), ("ckpt-20.data-00000-of-00002", 4),
        ("ckpt-20.data-00001-of-00002", 5),
        ("ckpt-10.data-00000-of-00001", 9), ("best/best-10.index", 1),
    ):  # fmt: skip
        (run.path / name).write_bytes(bytes(size))
    (run.path / "params.yaml.1").write_text("")
    (run.path / "environment.json").write_text('{"starts": [{"command": "quintain train"}]}')

    details = reader.describe(run)

    assert details.params["runtime"] == {"seed": 7}
    assert "experiment" not in details.params
    assert details.imports == ("my_experiments",)
    assert details.former_params == ("params.yaml.1",)
    assert details.environment == {"starts": [{"command": "quintain train"}]}
    # The one without an index is not complete.
    assert [(one.name, one.step, one.num_bytes) for one in details.checkpoints] == [
        ("best/best-10", 10, 1),
        ("ckpt-20", 20, 12),
    ]


@pytest.mark.parametrize("params", ["", "- a", "a: [", "a: &x [*x, *x]", "\x00", "a: 1\na: 2"])
def test_settings_that_cannot_be_read_are_a_problem_of_one_run(make_run, reader, params):
    summary = reader.summarize(make_run(params=params))

    assert summary.problem
    assert (summary.experiment, summary.train_steps, summary.step) == ("", None, 20)


def test_settings_are_read_again_when_they_change(make_run, reader):
    run = make_run()
    before = reader.summarize(run).train_steps

    (run.path / "params.yaml").write_text("trainer: {train_steps: 50}\n")

    assert (before, reader.summarize(run).train_steps) == (40, 50)


def test_curves_have_a_column_for_each_metric(make_run, reader, to_line):
    run = make_run()
    with (run.path / "training.jsonl").open("a") as file:
        file.write(to_line(30, learning_rate=1e-3, training_loss=None, note="x", shown=True))

    curves = reader.read_curves(run, "")

    assert curves.is_reset
    assert curves.training.steps == [10, 20, 30]
    assert curves.training.times == [110.0, 120.0, 130.0]
    # What training could not write as a number is none; what is missing is not there.
    assert codec.to_plain(curves.training.metrics) == {
        "training_loss": [0.1, 0.05, "NaN"],
        "task|bleu": [10.0, 20.0, None],
        "learning_rate": [None, None, 1e-3],
    }
    assert curves.evaluations.metrics == {"validation_loss": [2.5, 5.0]}


def test_only_new_records_are_given_after_a_cursor(make_run, reader, to_line):
    run = make_run()
    first = reader.read_curves(run, "")
    half = to_line(30, training_loss=0.5)
    with (run.path / "training.jsonl").open("a") as file:
        file.write(half[:20])
    nothing = reader.read_curves(run, first.cursor)
    with (run.path / "training.jsonl").open("a") as file:
        file.write(half[20:])

    second = reader.read_curves(run, nothing.cursor)

    assert nothing.training.steps == nothing.evaluations.steps == []
    assert not second.is_reset
    assert (second.training.steps, second.evaluations.steps) == ([30], [])


def test_a_run_that_was_thrown_back_is_told_from_the_start(make_run, reader, to_line):
    run = make_run(steps=(10, 20, 30))
    cursor = reader.read_curves(run, "").cursor

    lines = [to_line(step, training_loss=0.7) for step in (10, 20, 30, 40, 50)]
    (run.path / "training.jsonl").write_text("".join(lines))
    curves = reader.read_curves(run, cursor)

    assert curves.is_reset
    assert curves.training.metrics["training_loss"][1] == 0.7
    assert curves.evaluations.steps == [10, 20, 30]


@pytest.mark.parametrize(
    "cursor", ["x", "-", "9" * 400, "5-00000000.", "٣-1", "0-00000000.0-00000000", "\0", "..."]
)
def test_a_cursor_that_is_none_begins_anew(make_run, reader, cursor):
    assert reader.read_curves(make_run(), cursor).training.steps == [10, 20]


def test_damaged_lines_and_what_is_no_file_are_left_out(make_run, reader, to_line):
    run = make_run()
    lines = ["{", "[]", "9" * 5000, '{"step": 1e3, "metrics": {}}', '{"step": true, "metrics": {}}',
             "[" * 100_000, '{"step": 5, "metrics": {"a": 1e999, "b": NaN, "c": %s}}' % ("9" * 400),
             "\udcff"]  # fmt: skip
    text = "\n".join(lines) + "\n" + to_line(30, training_loss=0.5)
    (run.path / "training.jsonl").write_bytes(text.encode(errors="surrogateescape"))
    (run.path / "evaluations.jsonl").unlink()
    os.mkfifo(run.path / "evaluations.jsonl")

    curves = reader.read_curves(run, "")

    assert curves.training.steps == [5, 30]
    assert codec.to_plain(curves.training.metrics) == {
        "a": ["Infinity", None],
        "b": ["NaN", None],
        "c": ["Infinity", None],
        "training_loss": [None, 0.5],
    }
    assert curves.evaluations.steps == []


def test_a_link_out_of_the_directory_is_not_read(make_run, reader, to_line, tmp_path):
    run = make_run()
    (tmp_path / "secret").write_text(to_line(99, training_loss=1.0))
    (run.path / "training.jsonl").unlink()
    (run.path / "training.jsonl").symlink_to(tmp_path / "secret")

    assert reader.read_curves(run, "").training.steps == []
    assert reader.summarize(run).step == 20


def test_long_records_are_thinned_and_keep_their_ends(make_run, reader, to_line, monkeypatch):
    run = make_run()
    monkeypatch.setattr(run_lines, "MAX_ROWS", 50)
    text = "".join(to_line(step, training_loss=0.5) for step in range(1, 2001))
    (run.path / "training.jsonl").write_text(text)
    read = reader.read_curves(run, "")
    monkeypatch.setattr(run_lines, "_WHOLE_BYTES", 1000)
    monkeypatch.setattr(run_lines, "_TAIL_BYTES", 1000)

    sampled = reader.read_curves(run, "")

    for curves in (read, sampled):
        steps = curves.training.steps
        assert curves.is_thinned
        assert (len(steps), steps[0], steps[-1]) == (50, 1, 2000)
        assert max(b - a for a, b in itertools.pairwise(steps)) < 100
        assert reader.read_curves(run, curves.cursor).training.steps == []
