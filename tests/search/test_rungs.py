import itertools

import pytest

from quintain.search import rungs

SEQUENCES = [[0.5] * 6, [0.5, 0.5, 0.2, 0.5, 0.5, 0.5], [0.9, 0.5, 0.5, 0.2, 0.2, 0.5]]


def new_rung(names):
    rung = rungs.Rung(1)
    rung.order = {name: number for number, name in enumerate(sorted(names))}
    return rung


@pytest.mark.parametrize("metrics", SEQUENCES)
def test_who_comes_first_of_equals_does_not_change_how_many_are_promoted(metrics):
    counts = set()
    for names in itertools.permutations("abcdef"):
        rung = new_rung(names)
        chosen = [
            rung.choose_promotion(name, metric, lambda count: count // 2)
            for name, metric in zip(names, metrics, strict=True)
        ]
        counts.add(tuple(each is not None for each in chosen))
        assert rung.metrics == sorted(metrics)
    assert len(counts) == 1


def test_of_equals_one_of_two_is_promoted_and_no_more():
    rung = new_rung("abcdef")
    chosen = [rung.choose_promotion(name, 0.5, lambda count: count // 2) for name in "fedcba"]

    assert sum(each is not None for each in chosen) == 3


@pytest.mark.parametrize("metrics", SEQUENCES)
def test_who_comes_first_of_equals_does_not_change_how_many_stay(metrics):
    counts = set()
    for names in itertools.permutations("abcdef"):
        rung = new_rung(names)
        stay = []
        for name, metric in zip(names, metrics, strict=True):
            stay.append(rung.is_among_best(name, metric, 2.0))
            if stay[-1]:
                rung.promoted.add(name)
        counts.add(tuple(stay))
    assert len(counts) == 1
