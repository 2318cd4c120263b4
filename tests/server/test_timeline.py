import dataclasses
import json

import pytest

from quintain.records.rows import launch
from quintain.server.feed import changes


@pytest.fixture
def spans(store):
    """Lets trial 2 hold both slots after trial 1 held one of them; returns when."""
    first = launch.Launch("a", 1, 1, (0,), launch.LaunchState.RUNNING, None, 10.0)
    with store.transaction() as session:
        session.save_launch(first)
        session.delete_launch("a")
        session.save_launch(
            dataclasses.replace(first, launch_id="b", trial_id=2, slots=(0, 1), start_time=20.0)
        )
        return session.list_spans()


def test_who_held_which_slot_is_listed(http, spans):
    answer = http("GET", "/api/v1/timeline").json

    assert answer["slots"] == [{"id": 0, "kind": "cpu", "device": "", "node": ""}]
    assert answer["spans"] == [
        [0, 1, 1, 10.0, spans[0].end_time],
        [0, 2, 1, 20.0, None],
        [1, 2, 1, 20.0, None],
    ]


def test_it_is_listed_of_an_experiment_or_a_time(http, spans):
    later = http("GET", f"/api/v1/timeline?since={spans[0].end_time + 1}&experiment_id=1").json
    assert [span[1] for span in later["spans"]] == [2, 2]
    assert http("GET", "/api/v1/timeline?experiment_id=9").status == 404
    assert http("GET", "/api/v1/timeline?since=then").status == 400


def test_followers_are_told_what_trials_took_as_launches_begin_and_end(store, spans):
    with store.reading() as session:
        found = json.loads(
            changes.read(session, session.get_change_bounds()[1] - 3).encode(1, None)
        )
    took = [(one["id"], one["held_secs"], one["held_since"]) for one in found["trials"]]
    assert took == [(1, spans[0].end_time - 10.0, None), (2, 0.0, 20.0)]
