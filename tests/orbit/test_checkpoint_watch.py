import tensorflow as tf

from quintain.orbit import checkpoint_watch


def _save(directory, step):
    tf.train.CheckpointManager(
        tf.train.Checkpoint(v=tf.Variable(0)), str(directory), max_to_keep=None
    ).save(step)
    return str(directory / f"ckpt-{step}")


def _iterate(directory, *, timeout_secs=None, timeout_fn=None, wait=None, **kwargs):
    kwargs.setdefault("clock", lambda: 0.0)
    return checkpoint_watch.iterate_new_checkpoints(
        str(directory), timeout_secs=timeout_secs, timeout_fn=timeout_fn, wait=wait, **kwargs
    )


def test_yields_each_new_checkpoint_until_it_is_told_that_there_are_no_more(tmp_path):
    saved = [_save(tmp_path, 1)]

    def wait(secs):
        saved.append(_save(tmp_path, 2))
        return False

    paths = list(_iterate(tmp_path, is_finished=lambda: len(saved) == 2, wait=wait))

    assert paths == saved


def test_ends_at_the_first_timeout_without_a_function(tmp_path):
    times = iter(range(100))
    waits = []

    paths = list(
        _iterate(
            tmp_path,
            timeout_secs=2.5,
            wait=lambda secs: waits.append(secs),
            clock=lambda: float(next(times)),
        )
    )

    assert paths == []
    assert waits
    assert all(0 <= secs <= checkpoint_watch.POLL_SECS for secs in waits)


def test_goes_on_after_a_timeout_if_the_function_says_so(tmp_path):
    answers = iter([False, False, True])

    paths = list(_iterate(tmp_path / "not_yet", timeout_secs=0.0, timeout_fn=lambda: next(answers)))

    assert paths == []
    assert next(answers, "all asked") == "all asked"


def test_ends_when_waiting_is_interrupted(tmp_path):
    assert list(_iterate(tmp_path, wait=lambda secs: True)) == []
