import pytest
import tensorflow as tf

from quintain import errors, orbit
from quintain.run import run_options, train_lib
from quintain.run.events import step_profile


class Collector(orbit.Reporter):
    def __init__(self):
        self.messages, self.loops = [], []

    def on_message(self, text):
        self.messages.append(text)

    def on_train_loop(self, step, target_steps, output, loop_secs, num_steps):
        self.loops.append((step, num_steps))


def train(params, model_dir, text):
    params.lock()
    reporter = Collector()
    train_lib.train_from_config(
        params,
        "train",
        str(model_dir),
        experiment="test/line",
        options=run_options.RunOptions(
            reporter=reporter, profile=step_profile.StepRange.parse(text)
        ),
    )
    return reporter


@pytest.fixture
def profiler(monkeypatch):
    """Records at which step of the run the profiler was started and stopped."""
    calls = []
    monkeypatch.setattr(
        tf.profiler.experimental, "start", lambda log_dir: calls.append(("start", log_dir))
    )
    monkeypatch.setattr(tf.profiler.experimental, "stop", lambda: calls.append(("stop",)))
    return calls


@pytest.mark.slow
def test_a_profile_of_the_steps_is_written(tmp_path, line_params):
    reporter = train(line_params({"trainer": {"train_steps": 10}}), tmp_path, "3:4")

    assert list(tmp_path.glob("plugins/profile/*/*.xplane.pb"))
    assert any("The profile is in" in message for message in reporter.messages)


@pytest.mark.long("A profile is written in every run")
@pytest.mark.slow
def test_loops_end_where_the_profile_starts_and_stops(tmp_path, line_params, profiler):
    reporter = train(line_params({"trainer": {"train_steps": 15}}), tmp_path, "3:7")

    assert reporter.loops == [(3, 3), (7, 4), (12, 5), (15, 3)]
    assert profiler == [("start", str(tmp_path)), ("stop",)]


@pytest.mark.long("A profile is written in every run")
@pytest.mark.slow
def test_a_run_that_ends_early_still_writes_its_profile(tmp_path, line_params, profiler):
    train(line_params({"trainer": {"train_steps": 5}}), tmp_path, "3:70")

    assert [name for name, *_ in profiler] == ["start", "stop"]


@pytest.mark.long("A profile is written in every run")
@pytest.mark.slow
def test_steps_that_are_over_are_not_profiled(tmp_path, line_params, profiler):
    train(line_params({"trainer": {"train_steps": 5}}), tmp_path, "0:1")
    profiler.clear()

    reporter = train(line_params({"trainer": {"train_steps": 10}}), tmp_path, "1:3")

    assert profiler == []
    assert any("Nothing is profiled" in message for message in reporter.messages)


@pytest.mark.parametrize("text", ["", "5", "a:b", "5:5", "7:3", "-1:4", "1:2:3", "0:5000"])
def test_malformed_ranges_are_refused(text):
    with pytest.raises(errors.ConfigError, match=r"--profile: got"):
        step_profile.StepRange.parse(text)
