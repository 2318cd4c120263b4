import pytest

from quintain.orbit import checkpoint_schedule


class _Manager:
    """Only what the schedule uses, and a record of it."""

    def __init__(self, interval):
        self.checkpoint_interval = interval
        self.saved = []

    def save(self, checkpoint_number, check_interval, options):
        assert not check_interval
        self.saved.append((checkpoint_number, options.enable_async))
        return f"ckpt-{checkpoint_number}"

    def sync(self):
        self.saved.append("sync")


@pytest.fixture
def make_schedule(reporter):
    def make(interval, *, enable_async=False):
        manager = _Manager(interval)
        schedule = checkpoint_schedule.CheckpointSchedule(
            manager, enable_async=enable_async, reporter=reporter
        )
        return schedule, manager

    return make


def test_saves_once_the_interval_is_over(make_schedule, reporter):
    schedule, manager = make_schedule(10)
    schedule.begin(0)

    results = [schedule.maybe_save(step) for step in (4, 9, 12, 20, 22)]

    assert results == [False, False, True, False, True]
    assert manager.saved == [(12, False), (22, False)]
    assert reporter.events == [("checkpoint", 12), ("checkpoint", 22)]


def test_restored_checkpoint_starts_the_interval(make_schedule):
    schedule, _ = make_schedule(10)
    schedule.restored(15, "ckpt-15")
    schedule.begin(15)

    results = [schedule.maybe_save(step) for step in (20, 24, 25)]

    assert results == [False, False, True]


def test_same_step_is_not_saved_twice(make_schedule):
    schedule, manager = make_schedule(10)

    assert schedule.save(7)
    assert not schedule.save(7)
    assert len(manager.saved) == 1


@pytest.mark.parametrize("interval", [None, 0])
def test_without_interval_saves_only_on_demand(make_schedule, interval):
    schedule, _ = make_schedule(interval)
    schedule.begin(0)

    assert not schedule.maybe_save(1000)
    assert schedule.save(1000)


def test_interval_starts_over_when_the_step_is_set_back(make_schedule):
    schedule, _ = make_schedule(10)
    schedule.begin(0)
    schedule.save(30)

    results = [schedule.maybe_save(step) for step in (20, 25, 30, 35, 40)]

    assert results == [False, False, True, False, True]


def test_saves_asynchronously_if_asked_to(make_schedule):
    schedule, manager = make_schedule(10, enable_async=True)

    schedule.save(1)
    schedule.sync()

    assert manager.saved == [(1, True), "sync"]
