import pytest

from quintain.loggers import follower, metric_logger


class Recorder(metric_logger.MetricLogger):
    def __init__(self):
        self.sent, self.opened, self.endings, self.problem = [], [], [], None

    def open(self, run, run_id):
        self.opened.append(run_id)
        return "id"

    def log(self, points):
        if self.problem:
            raise self.problem
        self.sent += [(point.group, point.step) for point in points]

    def close(self, ending):
        self.endings.append(ending)


@pytest.fixture
def make(run):
    def build(cursor=None, **options):
        kept, told = [], []
        recorder = Recorder()
        start = cursor or follower.Cursor()
        sending = follower.Follower(
            recorder, "mine", run, start, kept.append, report=told.append, **options
        )
        return sending, recorder, kept, told

    return build


def test_each_point_is_sent_once_also_after_a_crash(make, make_points):
    sending, recorder, kept, _ = make()
    points = [*make_points("training", 1, 2), *make_points("validation", 2)]
    sending.send(points)
    sending.send([*points, *make_points("training", 3)])

    again, second, _, _ = make(follower.Cursor.from_text(kept[-1].to_text()))
    again.send([*points, *make_points("training", 3, 4)])
    again.close("completed")

    assert recorder.sent == [
        ("training", 1), ("training", 2), ("validation", 2), ("training", 3)
    ]  # fmt: skip
    assert (recorder.opened, second.opened) == ([""], ["id"])
    assert (second.sent, second.endings) == ([("training", 4)], ["completed"])


def test_an_outage_is_told_once_and_what_waited_is_sent_later(make, make_points):
    now = [0.0]
    sending, recorder, _, told = make(clock=lambda: now[0])
    recorder.problem = OSError("unreachable")
    for step in (1, 2):
        sending.send(make_points("training", *range(1, step + 1)))
        now[0] += 11
    assert len(told) == 1
    assert "'mine' fails" in told[0]
    assert "unreachable" in told[0]

    recorder.problem = None
    sending.send(make_points("training", 1, 2, 3))
    assert recorder.sent == []  # It waits longer after the second failure.
    now[0] += 11
    sending.send(make_points("training", 1, 2, 3))
    assert recorder.sent == [("training", 1), ("training", 2), ("training", 3)]


def test_the_last_chance_is_taken(make, make_points):
    sending, recorder, _, _ = make(clock=lambda: 0.0)
    recorder.problem = OSError()
    sending.send(make_points("training", 1))
    recorder.problem = None
    sending.send(make_points("training", 1), is_last=True)

    assert recorder.sent == [("training", 1)]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"run_id": "a"}', '{"steps": {"a": "b"}}'])
def test_a_damaged_cursor_is_the_beginning(text):
    assert follower.Cursor.from_text(text) == follower.Cursor()
