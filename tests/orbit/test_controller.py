import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors, orbit


def _steps(manager):
    return [int(path.rsplit("-", 1)[1]) for path in manager.checkpoints]


def _controller(counter, *, reporter=None, steps_per_loop=4, **kwargs):
    return orbit.Controller(
        trainer=counter,
        evaluator=counter,
        global_step=counter.global_step,
        steps_per_loop=steps_per_loop,
        reporter=reporter,
        **kwargs,
    )


@pytest.mark.slow
def test_trains_in_loops_up_to_the_target(make_counter, reporter):
    counter = make_counter()

    _controller(counter, reporter=reporter).train(10)

    assert reporter.events == [
        ("train_begin", 0, 10),
        ("train_loop", 4, 10, {"total": 0 + 1 + 2 + 3}, 4),
        ("train_loop", 8, 10, {"total": 4 + 5 + 6 + 7}, 4),
        ("train_loop", 10, 10, {"total": 8 + 9}, 2),
        ("train_end", 10),
    ]


def test_steps_per_loop_may_depend_on_the_step(make_counter, reporter):
    controller = _controller(
        make_counter(), reporter=reporter, steps_per_loop=lambda step: 1 if step < 2 else 5
    )

    controller.train(9)

    assert [event[1] for event in reporter.named("train_loop")] == [1, 2, 7, 9]


def test_evaluates_once_and_reports_every_step(make_counter, reporter):
    output = _controller(make_counter(), reporter=reporter).evaluate()

    assert output == {"eval_total": 3}
    assert reporter.events == [
        ("eval_begin", 0, -1),
        ("eval_step", 1, -1),
        ("eval_step", 2, -1),
        ("eval_step", 3, -1),
        ("eval_end", 0, {"eval_total": 3}),
    ]


def test_evaluation_of_some_steps_measures_its_speed(make_counter):
    output = _controller(make_counter()).evaluate(2)

    assert output["eval_total"] == 1
    assert output["steps_per_second"] > 0


def test_evaluator_without_output_is_fine():
    class Silent(orbit.AbstractEvaluator):
        def evaluate(self, num_steps):
            return None

    controller = orbit.Controller(evaluator=Silent(), global_step=tf.Variable(0, dtype=tf.int64))

    assert controller.evaluate(1).keys() == {"steps_per_second"}


def test_saves_before_each_evaluation_that_is_on_record(make_counter, make_manager, reporter):
    counter = make_counter()
    controller = _controller(
        counter,
        reporter=reporter,
        checkpoint_manager=make_manager(counter, interval=100),
        evaluated=lambda step: False,
    )

    output = controller.train_and_evaluate(10, eval_interval=6)

    assert output == {"eval_total": 3}
    assert [event[:2] for event in reporter.named("train_loop", "checkpoint", "eval_begin")] == [
        ("train_loop", 4),
        ("checkpoint", 4),
        ("train_loop", 6),
        ("checkpoint", 6),
        ("eval_begin", 6),
        ("train_loop", 10),
        ("checkpoint", 10),
        ("eval_begin", 10),
    ]


def test_evaluates_at_multiples_of_the_interval_after_a_restart(make_counter, reporter):
    counter = make_counter()
    counter.global_step.assign(7)

    _controller(counter, reporter=reporter).train_and_evaluate(20, eval_interval=6)

    assert [event[1] for event in reporter.named("eval_begin")] == [12, 18, 20]


def test_catches_up_on_an_evaluation_that_an_earlier_run_did_not_finish(make_counter, reporter):
    counter = make_counter()
    counter.global_step.assign(6)

    _controller(counter, reporter=reporter, evaluated=lambda step: False).train_and_evaluate(
        12, eval_interval=6
    )

    assert [event[:2] for event in reporter.named("train_loop", "eval_begin")] == [
        ("eval_begin", 6),
        ("train_loop", 10),
        ("train_loop", 12),
        ("eval_begin", 12),
    ]


def test_ends_after_the_evaluation_at_which_it_is_told_to_stop(
    make_counter, make_manager, reporter
):
    counter = make_counter()
    controller = _controller(
        counter,
        reporter=reporter,
        checkpoint_manager=make_manager(counter),
        stopping=lambda: "no use" if int(counter.global_step) >= 6 else None,
    )

    output = controller.train_and_evaluate(12, eval_interval=3)

    assert output == {"eval_total": 3}
    assert [event[1] for event in reporter.named("eval_begin")] == [3, 6]
    assert reporter.named("message") == [("message", "no use")]
    assert reporter.named("checkpoint")[-1] == ("checkpoint", 6)


def test_stops_after_an_evaluation_that_an_earlier_run_did_not_finish(make_counter, reporter):
    counter = make_counter()
    counter.global_step.assign(6)

    _controller(
        counter, reporter=reporter, evaluated=lambda step: False, stopping=lambda: "no use"
    ).train_and_evaluate(12, eval_interval=6)

    assert [event[:2] for event in reporter.named("train_loop", "eval_begin")] == [
        ("eval_begin", 6)
    ]


def test_an_action_may_set_the_step_back(make_counter, reporter):
    counter, done = make_counter(), []

    def go_back(output):
        if int(counter.global_step) == 10 and not done:
            done.append(True)
            counter.global_step.assign(2)

    _controller(counter, reporter=reporter, train_actions=[go_back]).train_and_evaluate(
        12, eval_interval=6
    )

    # What the loop that was taken back did is not reported; evaluations are made again.
    steps = [event[:2] for event in reporter.named("train_loop", "eval_begin")]
    assert [step for name, step in steps if name == "eval_begin"] == [6, 6, 12]
    assert reporter.named("train_loop")[-1][1] == 12


def test_does_not_repeat_an_evaluation_that_was_finished(make_counter, reporter):
    counter = make_counter()
    counter.global_step.assign(12)
    controller = _controller(counter, reporter=reporter, evaluated={6, 12}.__contains__)

    assert controller.train_and_evaluate(12, eval_interval=6) is None
    assert not reporter.named("eval_begin", "train_loop")


def test_finished_run_makes_up_for_its_final_evaluation(make_counter):
    counter = make_counter()
    counter.global_step.assign(11)

    controller = _controller(counter, evaluated=lambda step: False)

    assert controller.train_and_evaluate(11, eval_interval=6) == {"eval_total": 3}


def test_interval_saves_count_from_the_restored_checkpoint(make_counter, make_manager):
    first = make_counter()
    _controller(first, checkpoint_manager=make_manager(first, interval=8)).train(10)
    second = make_counter()
    manager = make_manager(second, interval=8)

    _controller(second, checkpoint_manager=manager).train(30)

    # The first loop, as TensorFlow's manager has it, and 10 at the end; then loops end at 14, 18,
    # 22, 26, 30.
    assert _steps(manager) == [4, 10, 18, 26, 30]


def test_without_interval_saves_only_at_the_end(make_counter, make_manager):
    counter = make_counter()
    manager = make_manager(counter, interval=0)

    _controller(counter, checkpoint_manager=manager).train_and_evaluate(10, eval_interval=5)

    assert _steps(manager) == [10]


def test_can_leave_out_the_final_checkpoint(make_counter, make_manager):
    counter = make_counter()
    manager = make_manager(counter)

    _controller(counter, checkpoint_manager=manager).train(4, checkpoint_at_completion=False)

    assert _steps(manager) == []


def test_restores_the_latest_checkpoint_when_built(make_counter, make_manager, reporter):
    first = make_counter()
    _controller(first, checkpoint_manager=make_manager(first)).train(6)
    second = make_counter()

    controller = _controller(second, checkpoint_manager=make_manager(second), reporter=reporter)
    controller.train(8)

    assert reporter.events[:3] == [
        ("restore", 6),
        ("train_begin", 6, 8),
        ("train_loop", 8, 8, {"total": 6 + 7}, 2),
    ]


@pytest.fixture
def line_trainer():
    """A trainer of a Keras 3 model whose steps its optimizer counts."""

    class Line(orbit.StandardTrainer):
        def __init__(self):
            self.model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
            self.optimizer = keras.optimizers.Adam(0.1)
            super().__init__(tf.data.Dataset.from_tensors(tf.ones([1, 2])).repeat())

        def train_step(self, iterator):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(self.model(next(iterator)) ** 2)
            variables = self.model.trainable_variables
            self.optimizer.apply(tape.gradient(loss, variables), variables)

        def read(self):
            values = [*self.optimizer.variables, *self.model.trainable_variables]
            return [value.numpy() for value in values]

    return Line()


def test_an_optimizer_may_count_the_steps_of_checkpoints_that_tensorflow_manages(
    line_trainer, tmp_path
):
    steps = line_trainer.optimizer.iterations
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(model=line_trainer.model, optimizer=line_trainer.optimizer),
        str(tmp_path / "new"),
        max_to_keep=None,
        step_counter=steps,
        checkpoint_interval=4,
    )
    trained, restored = [], []
    controller = orbit.Controller(
        trainer=line_trainer,
        global_step=steps,
        steps_per_loop=4,
        checkpoint_manager=manager,
        enable_async_checkpointing=True,
        train_actions=[lambda output: trained.extend(line_trainer.read())],
    )

    controller.train(12)
    for path in manager.checkpoints:
        controller.restore_checkpoint(path)
        restored += line_trainer.read()

    assert _steps(manager) == [4, 8, 12]
    assert all(np.array_equal(a, b) for a, b in zip(trained, restored, strict=True))


def test_saving_without_a_manager_is_an_error(make_counter):
    with pytest.raises(ValueError, match="needs `checkpoint_manager`"):
        _controller(make_counter()).save_checkpoint()


def test_saves_when_the_interval_is_over_and_not_for_an_evaluation(make_counter, make_manager):
    counter = make_counter()
    manager = make_manager(counter, interval=10)

    _controller(counter, checkpoint_manager=manager, steps_per_loop=3).train_and_evaluate(
        25, eval_interval=5
    )

    assert _steps(manager) == [3, 13, 23, 25]


def test_asynchronous_checkpoints_are_on_disk_when_training_returns(make_counter, tmp_path):
    counter = make_counter()
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(total=counter.total, iterator=counter.ensure_train_iterator()),
        str(tmp_path),
        max_to_keep=None,
        step_counter=counter.global_step,
        checkpoint_interval=4,
    )

    _controller(counter, checkpoint_manager=manager, enable_async_checkpointing=True).train(8)

    assert _steps(manager) == [4, 8]
    assert tf.train.load_variable(manager.checkpoints[-1], "total/.ATTRIBUTES/VARIABLE_VALUE") == 28


def test_runs_actions_with_the_outputs(make_counter):
    train_outputs, eval_outputs = [], []

    _controller(
        make_counter(), train_actions=[train_outputs.append], eval_actions=[eval_outputs.append]
    ).train_and_evaluate(8, eval_interval=8)

    assert train_outputs == [{"total": 6}, {"total": 22}]
    assert [int(output["eval_total"]) for output in eval_outputs] == [3]


def test_stops_early_when_a_subclass_says_so(make_counter, reporter):
    class EarlyStopping(orbit.Controller):
        def train_and_evaluate(self, train_steps, eval_steps=-1, eval_interval=None):
            output = None
            while self.global_step.numpy() < train_steps and output != {"eval_total": 3}:
                self.train(int(self.global_step.numpy()) + eval_interval)
                output = self.evaluate(eval_steps)
            return output

    counter = make_counter()
    controller = EarlyStopping(
        trainer=counter,
        evaluator=counter,
        global_step=counter.global_step,
        steps_per_loop=2,
        reporter=reporter,
    )

    controller.train_and_evaluate(100, eval_interval=6)

    assert int(counter.global_step) == 6


def test_writes_outputs_to_separate_event_files(make_counter, tmp_path, read_scalars):
    _controller(
        make_counter(),
        summary_dir=str(tmp_path / "train"),
        eval_summary_dir=str(tmp_path / "validation"),
    ).train_and_evaluate(6, eval_interval=6)

    train = read_scalars(tmp_path / "train")
    assert train.keys() == {"total", "steps_per_second"}
    assert train["total"] == [(4, 6.0), (6, 9.0)]
    assert read_scalars(tmp_path / "validation") == {"eval_total": [(6, 3.0)]}


def test_evaluations_share_the_directory_of_training_by_default(
    make_counter, tmp_path, read_scalars
):
    _controller(make_counter(), summary_dir=str(tmp_path)).train_and_evaluate(4)

    assert read_scalars(tmp_path).keys() == {"total", "steps_per_second", "eval_total"}


def test_training_creates_no_directory_for_evaluations(make_counter, tmp_path):
    _controller(
        make_counter(),
        summary_dir=str(tmp_path / "train"),
        eval_summary_dir=str(tmp_path / "validation"),
    ).train(4)

    assert (tmp_path / "train").exists()
    assert not (tmp_path / "validation").exists()


def test_summaries_inside_of_a_step_are_written_at_their_interval(tmp_path, read_scalars):
    class Summarising(orbit.StandardTrainer):
        def __init__(self):
            self.step = orbit.utils.create_global_step()
            super().__init__(tf.data.Dataset.range(5).repeat())

        def train_step(self, iterator):
            tf.summary.scalar("number", next(iterator))
            self.step.assign_add(1)

    trainer = Summarising()
    orbit.Controller(
        trainer=trainer,
        global_step=trainer.step,
        steps_per_loop=2,
        summary_interval=4,
        summary_dir=str(tmp_path),
    ).train(10)

    assert read_scalars(tmp_path)["number"] == [(0, 0.0), (4, 4.0), (8, 3.0)]


def test_finite_data_ends_training_with_a_checkpoint_and_an_evaluation(
    make_counter, make_manager, reporter
):
    counter = make_counter(num_examples=6)
    manager = make_manager(counter)

    output = _controller(counter, reporter=reporter, checkpoint_manager=manager).train_and_evaluate(
        20, eval_interval=100
    )

    assert output == {"eval_total": 3}
    assert int(counter.total) == 0 + 1 + 2 + 3 + 4 + 5
    assert _steps(manager) == [6]
    assert reporter.named("train_loop", "message", "train_end") == [
        ("train_loop", 4, 20, {"total": 6}, 4),
        ("train_loop", 6, 20, {"total": 9}, 2),
        ("message", "The training data ended at step 6 of 20."),
        ("train_end", 6),
    ]


def test_finite_data_that_ends_with_a_loop_is_evaluated_once(make_counter, reporter):
    controller = _controller(make_counter(num_examples=8), reporter=reporter)

    output = controller.train_and_evaluate(20, eval_interval=8)

    assert output == {"eval_total": 3}
    assert [event[1] for event in reporter.named("eval_begin")] == [8]
    assert [event[1] for event in reporter.named("train_loop")] == [4, 8]


def test_empty_training_data_is_an_error(make_counter):
    controller = _controller(make_counter(num_examples=0))

    with pytest.raises(errors.DataError, match="training dataset is empty"):
        controller.train(10)


def test_warns_when_the_global_step_does_not_move(caplog):
    class Stuck(orbit.AbstractTrainer):
        calls = 0

        def train(self, num_steps):
            self.calls += 1
            if self.calls > 1:
                step.assign_add(int(num_steps))

    step = tf.Variable(0, dtype=tf.int64)

    orbit.Controller(trainer=Stuck(), global_step=step, steps_per_loop=2).train(2)

    assert "was to do 2 steps, but `global_step` went from 0 to 0" in caplog.text


def test_another_dataset_can_be_put_in_its_place(make_counter, reporter):
    counter = make_counter(num_examples=4)
    controller = _controller(counter, reporter=reporter)
    controller.train(8)

    counter.train_dataset = tf.data.Dataset.range(100, 104)
    controller.train(8)

    assert reporter.named("train_loop")[-1] == ("train_loop", 8, 8, {"total": 406}, 4)
    assert not counter.train_data_exhausted


def test_evaluates_continuously_until_the_last_checkpoint(make_counter, make_manager, reporter):
    writer = make_counter()
    _controller(writer, checkpoint_manager=make_manager(writer)).train(6)
    reader = make_counter()
    controller = orbit.Controller(
        evaluator=reader,
        global_step=reader.global_step,
        checkpoint_manager=make_manager(reader),
        reporter=reporter,
    )

    answers = iter([False, True])

    output = controller.evaluate_continuously(timeout=0, timeout_fn=lambda: next(answers))

    assert next(answers, None) is None
    assert output == {"eval_total": 3}
    assert [event[1] for event in reporter.named("eval_begin")] == [6]


def test_evaluates_nothing_continuously_without_a_checkpoint(make_counter, make_manager):
    counter = make_counter()
    controller = _controller(counter, checkpoint_manager=make_manager(counter))

    assert controller.evaluate_continuously(timeout=0) is None


def test_needs_a_trainer_or_an_evaluator():
    with pytest.raises(ValueError, match="`trainer` and `evaluator`"):
        orbit.Controller(global_step=tf.Variable(0, dtype=tf.int64))


def test_rejects_what_is_no_variable_as_global_step(make_counter):
    with pytest.raises(ValueError, match=r"`global_step`.*expected a `tf\.Variable`"):
        orbit.Controller(evaluator=make_counter(), global_step=7)


@pytest.mark.parametrize("steps_per_loop", [None, 0, 1.5])
def test_rejects_a_loop_without_steps(make_counter, steps_per_loop):
    with pytest.raises(ValueError, match="`steps_per_loop`: got"):
        _controller(make_counter(), steps_per_loop=steps_per_loop)


def test_rejects_a_function_that_returns_a_loop_without_steps(make_counter):
    controller = _controller(make_counter(), steps_per_loop=lambda step: 0)

    with pytest.raises(ValueError, match="`steps_per_loop`: got 0"):
        controller.train(1)


@pytest.mark.parametrize(("interval", "message"), [(0, "got 0"), (6, "multiple of")])
def test_rejects_a_summary_interval_between_loops(make_counter, interval, message):
    with pytest.raises(ValueError, match=message):
        _controller(make_counter(), summary_interval=interval)


def test_rejects_impossible_numbers_of_steps(make_counter):
    controller = _controller(make_counter())

    with pytest.raises(ValueError, match="`steps`: got 0"):
        controller.evaluate(0)
    with pytest.raises(ValueError, match="`eval_interval`: got -1"):
        controller.train_and_evaluate(10, eval_interval=-1)


def test_methods_name_the_argument_that_they_miss(make_counter):
    counter = make_counter()
    no_trainer = orbit.Controller(evaluator=counter, global_step=counter.global_step)
    no_evaluator = orbit.Controller(
        trainer=counter, global_step=counter.global_step, steps_per_loop=1
    )

    with pytest.raises(ValueError, match=r"`Controller\.train` needs `trainer`"):
        no_trainer.train(1)
    with pytest.raises(ValueError, match=r"`Controller\.evaluate` needs `evaluator`"):
        no_evaluator.evaluate()
    with pytest.raises(ValueError, match="needs `checkpoint_manager`"):
        no_trainer.evaluate_continuously()
