"""Conformance suite for the curves that a store keeps."""

import dataclasses
import functools
import math

import pytest

from quintain import store as stores
from quintain.records.rows import curve, metric
from quintain.testing import store_case


class CurveSuite(store_case.StoreCase):
    """Tests of curves; a subclass gives the fixture `url`."""

    def test_what_was_measured_of_the_machine_is_no_result_of_training(
        self, store: stores.Store, trial_id: int
    ) -> None:
        """It is listed where it is asked for, outlives a roll back, and is drawn in its order."""
        group = metric.MetricGroup.SYSTEM
        rows = [
            metric.MetricRow(trial_id, group, total, {"cpu": float(number)}, 0, float(number))
            for number, total in enumerate([10, 30, 20])
        ]
        with store.transaction() as session:
            owner = session.get_trial(trial_id).experiment_id
            session.add_metrics(rows[:2])
            session.add_metrics(store_case.new_rows(trial_id, [30]))
            session.delete_metrics_after(trial_id, 10)
            session.add_metrics(rows[2:])
        with store.reading() as session:
            assert session.list_metrics(trial_id) == []
            assert session.list_metrics_since(trial_id, 1) == rows
            (found,) = session.list_curves(owner)
        assert curve.unpack(found.points) == ([10, 30, 20], [0, 1, 2], [0, 1, 2])

    def test_curves_are_those_of_the_metrics_however_they_came(
        self, store: stores.Store, trial_id: int
    ) -> None:
        """At once, one at a time, out of order, and after a roll back."""
        totals = [*range(1, 200), 150, 201, 200]
        with store.transaction() as session:
            owner = session.get_trial(trial_id).experiment_id
            single = session.add_trial(store_case.new_trial(owner)).id
            cut = session.add_trial(store_case.new_trial(owner)).id
            for row in store_case.new_rows(single, totals):
                session.add_metrics([row])
            for each in (trial_id, cut):
                session.add_metrics(store_case.new_rows(each, totals))
            session.delete_metrics_after(cut, 170)
            both = store_case.new_rows(single, [7])
            training = dataclasses.replace(both[0], group=metric.MetricGroup.TRAINING)
            session.add_metrics([*both, training])
            session.add_metrics(store_case.new_rows(cut, range(180, 185)))
        with store.reading() as session:
            found = session.list_curves(owner)
            rows = [row for each in (trial_id, single, cut) for row in session.list_metrics(each)]
        assert found == sorted(curve.build(owner, rows), key=lambda each: each.key)
        assert [each.num_points for each in found] == [202, 1, 203, 176]
        assert (found[0].last, found[0].last_batches) == (1 / 201, 201)
        assert (found[3].last_batches, found[3].min, found[3].max) == (184, 1 / 184, 1.0)

    def test_curves_can_be_narrowed(self, store: stores.Store, trial_id: int) -> None:
        """By metric and trial, and they can be read without their points."""
        group = metric.MetricGroup.VALIDATION
        with store.transaction() as session:
            owner = session.get_trial(trial_id).experiment_id
            other = session.add_trial(store_case.new_trial(owner)).id
            session.add_metrics(store_case.new_rows(trial_id, [1, 2], loss=1.0, top=2.0))
            session.add_metrics(store_case.new_rows(other, [1], loss=3.0))
        with store.reading() as session:
            found = session.list_curves(owner)
            assert [(each.trial_id, each.name) for each in found] == [
                (trial_id, "loss"),
                (trial_id, "top"),
                (other, "loss"),
            ]
            assert session.list_curves(owner, trial_ids=[other]) == found[2:]
            assert session.list_curves(owner, names=[(group, "top")]) == found[1:2]
            wanted = [(group, "top"), (group, "loss"), (metric.MetricGroup.TRAINING, "loss")]
            assert session.list_curves(owner, names=wanted, trial_ids=[trial_id]) == found[:2]
            assert session.list_curves(owner, points=False) == [
                dataclasses.replace(each, points=b"") for each in found
            ]
            assert session.list_curves(owner + 1) == []

    def test_only_numbers_have_curves(self, store: stores.Store, trial_id: int) -> None:
        """Those that are not finite, too, whether they come as numbers or as texts."""
        rows = functools.partial(store_case.new_rows, trial_id)
        with store.transaction() as session:
            owner = session.get_trial(trial_id).experiment_id
            session.add_metrics(rows([1], loss="NaN", words="NAN", top=7))
            session.add_metrics(rows([2], loss=-math.inf, words="x", top=10**400))
            session.add_metrics(rows([3], loss=2.5, top="Infinity"))
            session.add_metrics(rows([4], loss=math.nan, only=math.nan, flag=True))
        with store.reading() as session:
            loss, only, top = session.list_curves(owner)
        _, values, _ = curve.unpack(loss.points)
        assert str(values) == "[nan, -inf, 2.5, nan]"
        assert (loss.name, loss.min, loss.max) == ("loss", -math.inf, 2.5)
        assert math.isnan(loss.last)
        assert (only.name, math.isnan(only.min), math.isnan(only.max)) == ("only", True, True)
        assert curve.unpack(top.points)[1] == [7, math.inf, math.inf]

    def test_a_damaged_curve_is_reported_and_made_of_the_metrics(
        self, store: stores.Store, trial_id: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        """For who reads it; and for good, when it gets its next point."""
        with store.transaction() as session:
            owner = session.get_trial(trial_id).experiment_id
            session.add_metrics(store_case.new_rows(trial_id, [1, 2, 3]))
            (whole,) = session.list_curves(owner)
            session._run("UPDATE curves SET points = :cut", cut=b"\x00\xff")
        with store.reading() as session:
            assert session.list_curves(owner) == [whole]
        assert f"validation/loss of trial {trial_id} are damaged" in caplog.text
        with store.transaction() as session:
            session.add_metrics(store_case.new_rows(trial_id, [4]))
        caplog.clear()
        with store.reading() as session:
            (found,) = session.list_curves(owner)
            assert [found] == curve.build(owner, session.list_metrics(trial_id))
        assert caplog.text == ""
