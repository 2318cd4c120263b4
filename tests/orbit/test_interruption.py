import os
import pathlib
import signal
import subprocess
import sys
import threading

import pytest
import tensorflow as tf

from quintain import orbit
from quintain.orbit import interruption as interruption_lib
from quintain.process import told_again


@pytest.fixture
def signals_are_put_back():
    before = (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))
    others = set(threading.enumerate())
    yield
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    assert not [each for each in set(threading.enumerate()) - others if "quintain" in each.name]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_sets_the_flag_for_graphs_and_for_python(signals_are_put_back, number):
    with orbit.Interruption() as interruption:
        assert not interruption.requested
        assert not interruption.flag.numpy()

        os.kill(os.getpid(), number)

        assert interruption.wait(60.0)
        assert interruption.reason == number.name
        assert interruption.flag.numpy()


def test_signal_ends_a_loop_inside_of_a_graph(signals_are_put_back):
    counter = tf.Variable(0)

    def step_fn(iterator):
        if counter.assign_add(1) == 5:
            tf.py_function(lambda: os.kill(os.getpid(), signal.SIGTERM), inp=[], Tout=[])

    with orbit.Interruption() as interruption:
        loop_fn = tf.function(
            orbit.utils.create_tf_while_loop_fn(step_fn, stop_flag=interruption.flag)
        )
        num_steps = loop_fn(None, tf.constant(2**31 - 1))

    assert interruption.reason == "SIGTERM"
    assert 5 <= int(num_steps) == int(counter) < 2**31 - 1


def test_repeated_signal_within_a_moment_counts_once(signals_are_put_back, monkeypatch):
    monkeypatch.setattr(told_again, "REPEAT_SECS", 3600.0)
    with orbit.Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

        assert interruption.wait(60.0)
        assert interruption.reason == "SIGINT"


@pytest.fixture
def interrupts_are_not_ignored():
    """Undoes what a shell does that starts the tests in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_second_interrupt_has_its_usual_effect(
    interrupts_are_not_ignored, signals_are_put_back, monkeypatch
):
    monkeypatch.setattr(told_again, "REPEAT_SECS", 0.0)
    with orbit.Interruption() as interruption:
        interruption.request("a first reason")

        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_what_was_started_with_nohup_does_not_hear_of_its_terminal():
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruption_lib.Interruption() as interruption:
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            os.kill(os.getpid(), signal.SIGHUP)
            assert not interruption.requested
    finally:
        signal.signal(signal.SIGHUP, former)


def test_first_reason_is_kept():
    with orbit.Interruption() as interruption:
        interruption.request("first")
        interruption.request("second")

        assert interruption.reason == "first"


def test_flag_is_a_plain_variable_inside_of_a_strategy_scope():
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])

    with strategy.scope(), orbit.Interruption() as interruption:
        interruption.request("because")

        assert not isinstance(interruption.flag, tf.distribute.DistributedValues)
        assert interruption.flag.numpy()


def test_says_that_signals_are_not_handled_outside_of_the_main_thread(caplog):
    def run():
        with orbit.Interruption():
            pass

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()

    assert "Not in the main thread" in caplog.text


def test_can_be_entered_only_once():
    interruption = orbit.Interruption()
    with interruption:
        pass

    with pytest.raises(RuntimeError, match="only once"), interruption:
        pass


def test_hands_signals_on_to_the_wakeup_descriptor_that_was_there_before():
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    before = signal.set_wakeup_fd(write_fd)
    try:
        with orbit.Interruption() as interruption:
            os.kill(os.getpid(), signal.SIGTERM)
            interruption.wait(60.0)

        assert signal.set_wakeup_fd(before) == write_fd
        assert os.read(read_fd, 8) == bytes([signal.SIGTERM])
    finally:
        os.close(read_fd)
        os.close(write_fd)


def test_interrupted_loop_is_finished_after_the_restart(make_counter, make_manager, reporter):
    def build(counter, interruption):
        position = tf.Variable(0, dtype=tf.int64)
        return orbit.Controller(
            trainer=counter,
            global_step=counter.global_step,
            steps_per_loop=5,
            checkpoint_manager=make_manager(counter, position=position),
            reporter=reporter,
            interruption=interruption,
            loop_position=position,
        )

    with orbit.Interruption() as interruption:
        first = make_counter(options=orbit.StandardTrainerOptions(use_tf_while_loop=False))
        # Stops after the second step of the second loop.
        first._after_train_step = lambda _: (
            first.global_step.numpy() == 7 and (interruption.request("lunch") or True)
        )
        with pytest.raises(orbit.Interrupted) as stop:
            build(first, interruption).train(15)
    assert (stop.value.step, stop.value.reason) == (7, "lunch")
    build(make_counter(), None).train(15)

    assert reporter.named("train_loop") == [
        ("train_loop", 5, 15, {"total": 0 + 1 + 2 + 3 + 4}, 5),
        ("train_loop", 10, 15, {"total": 5 + 6 + 7 + 8 + 9}, 3),
        ("train_loop", 15, 15, {"total": 10 + 11 + 12 + 13 + 14}, 5),
    ]


def test_interruption_between_loops_saves_and_stops(make_counter, make_manager, reporter):
    counter = make_counter()
    manager = make_manager(counter)
    with orbit.Interruption() as interruption:
        controller = orbit.Controller(
            trainer=counter,
            global_step=counter.global_step,
            steps_per_loop=2,
            checkpoint_manager=manager,
            reporter=reporter,
            interruption=interruption,
            train_actions=[lambda output: interruption.request("enough")],
        )

        with pytest.raises(orbit.Interrupted, match="Stopped at step 2 on enough"):
            controller.train(10)

    assert manager.latest_checkpoint.endswith("ckpt-2")
    # Who catches the exception says it, and what to do now.
    assert reporter.named("message") == []
    assert reporter.events[-1] == ("train_end", 2)


def test_interruption_in_the_last_loop_does_not_undo_its_end(make_counter, reporter):
    counter = make_counter()
    with orbit.Interruption() as interruption:
        orbit.Controller(
            trainer=counter,
            global_step=counter.global_step,
            steps_per_loop=2,
            reporter=reporter,
            interruption=interruption,
            train_actions=[lambda output: interruption.request("enough")],
        ).train(2)

    assert reporter.events[-1] == ("train_end", 2)


def test_interrupted_evaluation_stops_between_steps_and_is_undone(
    make_counter, make_manager, reporter
):
    class Stopping(orbit.Reporter):
        def on_eval_step(self, done, num_steps):
            if done == 2:
                interruption.request("enough")

        def on_eval_end(self, step, output, secs):
            raise AssertionError("an interrupted evaluation has no result")

    counter = make_counter()
    aborted = []
    counter.eval_abort = lambda: aborted.append(int(counter.eval_total))
    manager = make_manager(counter)
    with orbit.Interruption() as interruption:
        controller = orbit.Controller(
            trainer=counter,
            evaluator=counter,
            global_step=counter.global_step,
            steps_per_loop=2,
            checkpoint_manager=manager,
            reporter=Stopping(),
            interruption=interruption,
        )

        with pytest.raises(orbit.Interrupted):
            controller.train_and_evaluate(4, eval_interval=2)

    assert aborted == [0 + 1]
    assert manager.latest_checkpoint.endswith("ckpt-2")


def test_interruption_ends_the_wait_for_checkpoints(make_counter, make_manager):
    counter = make_counter()
    with orbit.Interruption() as interruption:
        interruption.request("enough")
        controller = orbit.Controller(
            evaluator=counter,
            global_step=counter.global_step,
            checkpoint_manager=make_manager(counter),
            interruption=interruption,
        )

        with pytest.raises(orbit.Interrupted):
            controller.evaluate_continuously(timeout=None)


@pytest.mark.long("Further cases of a test of which some run every time", but=["15"])
@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_process_in_a_long_loop_saves_and_ends_promptly(tmp_path, number):
    program = pathlib.Path(__file__).parents[1] / "programs" / "long_loop.py"
    with subprocess.Popen(
        [sys.executable, str(program), str(tmp_path / "model")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "started\n"

        process.send_signal(number)
        line, errors = process.communicate(timeout=60)

    assert process.returncode == 0, errors
    reason, step, steps_left, path = line.split()
    assert reason == signal.Signals(number).name
    assert int(step) + int(steps_left) == 1_000_000
    assert pathlib.Path(path).name == f"ckpt-{step}"
    assert tf.train.load_variable(path, "step/.ATTRIBUTES/VARIABLE_VALUE") == int(step)
    # The loop was left, which alone would go on for minutes.
    assert int(steps_left) > 0
