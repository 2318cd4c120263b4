import logging

from quintain.web import quiet_logs


def test_the_same_message_is_let_through_once_in_a_while_with_the_number_left_out(monkeypatch):
    now_secs = [100.0]
    monkeypatch.setattr(quiet_logs.time, "monotonic", lambda: now_secs[0])
    limit = quiet_logs.RateLimit(pause_secs=10.0)

    def passes(message, *args, level=logging.WARNING):
        record = logging.LogRecord("n", level, "f", 1, message, args, None)
        return record.getMessage() if limit.filter(record) else None

    assert passes("bad %d", 1) == "bad 1"
    assert [passes("bad %d", number) for number in range(5)] == [None] * 5
    assert passes("other\n1") == "other\n1"
    assert passes("other\n2") is None
    assert passes("fine", level=logging.INFO) == passes("fine", level=logging.INFO) == "fine"
    now_secs[0] += 11.0
    assert passes("bad %d", 9) == "bad 9 (5 more like it were left out.)"


def test_a_logger_is_limited_once():
    logger = logging.getLogger("quintain.test_quiet_logs")
    quiet_logs.limit(logger.name)
    quiet_logs.limit(logger.name)
    assert len(logger.filters) == 1


def test_what_is_left_out_is_so_whatever_a_limit_makes_of_it(monkeypatch):
    now_secs = [100.0]
    monkeypatch.setattr(quiet_logs.time, "monotonic", lambda: now_secs[0])
    logger = logging.getLogger("quintain.test_left_out")
    quiet_logs.limit(logger.name)
    quiet_logs.leave_out(logger.name, "bad")
    quiet_logs.leave_out(logger.name, "bad")
    assert len(logger.filters) == 2

    def passes(message):
        return bool(logger.filter(logging.LogRecord("n", 30, "f", 1, message, (), None)))

    for _ in range(3):
        assert not passes("bad")
        assert not passes("bad")
        assert passes("good")
        now_secs[0] += 2 * quiet_logs.PAUSE_SECS
