import pytest

from quintain.master import checkpoint_gc
from quintain.records.rows import checkpoint

METRICS = [None, None, 0.6, 0.5, 0.4, None, 0.2, 0.3, None, None]
CHECKPOINTS = [
    checkpoint.Checkpoint(f"{number:02}", 1 if number < 6 else 2, 1, number, metric=metric)
    for number, metric in enumerate(METRICS, start=1)
]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((0, 0, 0), set()),
        ((2, 0, 0), {7, 8}),
        ((5, 0, 0), {3, 4, 5, 7, 8}),
        ((0, 1, 0), {5, 7}),
        ((0, 3, 0), {3, 4, 5, 7, 8}),
        ((0, 0, 1), {5, 10}),
        ((0, 0, 3), {3, 4, 5, 8, 9, 10}),
        ((2, 1, 0), {5, 7, 8}),
        ((2, 0, 1), {5, 7, 8, 10}),
        ((0, 1, 1), {5, 7, 10}),
        ((2, 1, 1), {5, 7, 8, 10}),
    ],
)
def test_what_anybody_asked_for_is_kept(numbers, expected):
    best, trial_best, trial_latest = numbers
    deleted = checkpoint_gc.choose_deleted(
        CHECKPOINTS,
        save_experiment_best=best,
        save_trial_best=trial_best,
        save_trial_latest=trial_latest,
        smaller_is_better=True,
    )
    assert set(range(1, 11)) - {int(each.uuid) for each in deleted} == expected


def test_larger_metrics_win_where_they_are_better_and_protected_ones_stay():
    deleted = checkpoint_gc.choose_deleted(
        CHECKPOINTS,
        save_experiment_best=1,
        save_trial_best=0,
        save_trial_latest=0,
        smaller_is_better=False,
        protected=["06"],
    )
    assert set(range(1, 11)) - {int(each.uuid) for each in deleted} == {3, 6}
