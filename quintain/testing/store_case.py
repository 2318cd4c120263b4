"""Fixtures of the store's conformance suites, and records to store."""

import dataclasses
from collections.abc import Iterable, Iterator

import pytest

from quintain import store as stores
from quintain.records.rows import experiment, metric, registered_model, states, trial


def new_experiment(**fields: object) -> experiment.Experiment:
    """Returns an experiment that has no id yet."""
    record = experiment.Experiment(
        id=0,
        state=states.ExperimentState.ACTIVE,
        config={"searcher": {"name": "single"}},
        original_config="searcher: {name: single}",
        model_dir="/models/1",
    )
    return dataclasses.replace(record, **fields)  # type: ignore[arg-type]


def new_trial(experiment_id: int, **fields: object) -> trial.TrialRecord:
    """Returns a trial that has no id yet."""
    record = trial.TrialRecord(
        id=0,
        experiment_id=experiment_id,
        request_id="first",
        state=states.TrialState.ACTIVE,
        hparams={"units": 8, "rates": [0.1, 0.2]},
        seed=2**31 - 1,
    )
    return dataclasses.replace(record, **fields)  # type: ignore[arg-type]


def new_rows(trial_id: int, totals: Iterable[int], **values: float | str) -> list[metric.MetricRow]:
    """Returns validation metrics: a loss of 1 / batches, or the values given."""
    group = metric.MetricGroup.VALIDATION
    return [
        metric.MetricRow(trial_id, group, total, values or {"loss": 1 / total}, 32, total + 0.5)
        for total in totals
    ]


def new_model_version(**fields: object) -> registered_model.ModelVersion:
    """Returns a version of a model that has no number yet."""
    record = registered_model.ModelVersion(
        path="",
        machine="",
        checkpoint="c",
        files={"weights": "0" * 64},
        config={"seed": 1},
        metrics={"loss": 0.5},
        origin={"host": "h"},
        id=0,
        name="m",
        version=0,
        sha256="1" * 64,
        trial_id=None,
        experiment_id=None,
        note="",
        time=1.0,
    )
    return dataclasses.replace(record, **fields)  # type: ignore[arg-type]


class StoreCase:
    """The fixtures; a subclass gives `url`."""

    @pytest.fixture
    def url(self) -> str:
        """Returns the URL of an empty database."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, url: str) -> Iterator[stores.Store]:
        """Yields the store of the database."""
        opened = stores.open_store(url)
        yield opened
        opened.close()

    @pytest.fixture
    def trial_id(self, store: stores.Store) -> int:
        """Returns the id of a trial of a new experiment."""
        with store.transaction() as session:
            owner = session.add_experiment(new_experiment())
            return session.add_trial(new_trial(owner.id)).id
