import time

from quintain.process import told_again


def test_a_signal_that_is_told_twice_in_a_moment_is_one_request(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    requests = told_again.Requests()
    found = []
    for secs in (100.0, 100.2, 100.9, 101.0, 101.5, 140.0):
        now[0] = secs
        found.append(requests.is_told_again())

    assert found == [False, True, True, False, True, False]


def test_the_first_signal_is_a_request_however_short_the_machine_runs(monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)

    assert not told_again.Requests().is_told_again()
