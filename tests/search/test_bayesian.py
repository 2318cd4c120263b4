import numpy as np
import pytest

from quintain.search import base_search, bayesian, searcher, simulate
from quintain.search import space as space_lib


def test_a_trial_stops_where_it_is_not_in_the_better_half_and_the_next_one_starts(play):
    search = play(
        bayesian.build_tpe,
        max_length=4, num_rungs=2, divisor=2.0, max_trials=3, max_concurrent_trials=1,
    )  # fmt: skip

    assert search.start() == ["new A", "A to 2"]
    assert search.result("A", 0.5, 2) == ["A to 4"]
    assert search.result("A", 0.4, 4) == ["close A"]
    assert search.closed("A") == ["new B", "B to 2"]
    assert search.result("B", 0.9, 2) == ["close B"]
    assert search.closed("B") == ["new C", "C to 2"]
    assert search.result("C", 0.1, 2) == ["C to 4"]
    assert search.result("C", 0.2, 4) == ["close C"]
    assert search.closed("C") == ["over"]


def test_failures_count_and_points_that_can_not_be_trained_do_not(play):
    search = play(bayesian.build_tpe, max_length=4, max_trials=2, max_concurrent_trials=1)

    assert search.start() == ["new A", "A to 4"]
    assert search.invalid("A") == ["new B", "B to 4"]
    assert search.failed("B") == ["new C", "C to 4"]
    assert search.failed("C") == ["failed"]


def test_a_search_that_is_over_takes_more_trials(play):
    search = play(bayesian.build_tpe, max_length=4, max_trials=1, max_concurrent_trials=2)
    search.start()
    search.result("A", 0.5, 4)

    assert search.closed("A") == ["over"]
    assert search.extend(4) == ["new B", "B to 4", "new C", "C to 4"]


def test_proposals_come_near_the_points_that_were_good():
    space = space_lib.Space.parse({"x": {"type": "double", "minval": 0, "maxval": 1}})
    method = bayesian.build_tpe(
        space, np.random.RandomState(1), max_length=1, max_trials=60, max_concurrent_trials=1
    )
    done = simulate.Simulation()

    simulate.simulate(
        searcher.Searcher(method), lambda name, _: abs(done.hparams[name]["x"] - 0.25), done
    )

    points = np.array([point["x"] for point in done.hparams.values()])
    # Of points drawn at random, half are farther away than 0.25.
    assert np.median(abs(points[-20:] - 0.25)) < 0.1


@pytest.mark.parametrize("sampler", ["tpe", "nsga2"])
def test_several_metrics_draw_proposals_to_their_front(sampler):
    unit = {"type": "double", "minval": 0, "maxval": 1}
    space = space_lib.Space.parse({"x": unit, "y": unit, "z": unit})
    space.first_points.append({"x": 0.125})
    method = bayesian.build_multi_objective(
        space, np.random.RandomState(1),
        max_length=1, max_trials=90, max_concurrent_trials=1, sampler=sampler, population_size=10,
        further_objectives=[{"metric": "b", "smaller_is_better": False}],
    )  # fmt: skip
    search = searcher.Searcher(method)
    points = []
    waiting = search.start()
    while create := next((one for one in waiting if isinstance(one, base_search.Create)), None):
        x, y, z = create.hparams.values()
        points.append((x, y, z))
        further = (-(abs(x - 0.5) + y + z),)
        search.record(searcher.Validated(create.request_id, x + y + z, 1, further))
        waiting = search.record(searcher.Closed(create.request_id))

    # On the front, y and z are 0, and x is from 0, best in the first metric, to 0.5.
    assert (points[0][0], len(points)) == (0.125, 90)
    assert np.mean(points[-30:], 0)[1:].sum() < 0.75 * np.mean(points[:10], 0)[1:].sum()
