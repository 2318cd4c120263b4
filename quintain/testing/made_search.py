"""Synthetic search of any size, for tests and benchmarks of what shows it."""

import math
import random
from typing import Final

from quintain.records.rows import experiment, metric, states, trial
from quintain.store import session as session_lib
from quintain.store import store as store_lib

HPARAMS: Final = {
    "learning_rate": {"type": "log", "minval": -5.0, "maxval": -1.0, "base": 10.0},
    "dropout": {"type": "double", "minval": 0.0, "maxval": 0.5},
    "units": {"type": "int", "minval": 8, "maxval": 512},
    "activation": {"type": "categorical", "vals": ["relu", "gelu", "tanh"]},
    "batch_size": {"type": "const", "val": 32},
}
"""The space that is searched."""

_STATES: Final = (states.TrialState.COMPLETED,) * 19 + (states.TrialState.ERROR,)
_BATCHES: Final = 100
_START: Final = 1.7e9


def write_search(
    store: store_lib.Store,
    num_trials: int,
    *,
    num_points: int = 1,
    name: str = "made",
    seed: int = 1,
) -> experiment.Experiment:
    """Writes an experiment with trials and their metrics, and returns it.

    Every trial reports `accuracy` and `loss` of its validations. One of twenty has failed, and one
    of a hundred ended with a loss that is not a number.

    Args:
        store: Where to write.
        num_trials: How many trials.
        num_points: Validations of each.
        name: Name of the experiment.
        seed: Seed of all that is drawn.
    """
    draw = random.Random(seed)
    config = {
        "name": name,
        "hyperparameters": HPARAMS,
        "searcher": {
            "name": "random",
            "metric": "accuracy",
            "smaller_is_better": False,
            "max_trials": num_trials,
            "max_length": {"batches": _BATCHES * num_points},
        },
    }
    with store.transaction() as session:
        owner = session.add_experiment(
            experiment.Experiment(
                id=0,
                state=states.ExperimentState.COMPLETED,
                config=config,
                original_config=f"name: {name}\n",
                model_dir="",
                progress=1.0,
                start_time=_START,
                end_time=_START + num_trials,
            )
        )
        for number in range(num_trials):
            _write_trial(session, owner.id, number, num_points, draw)
    return owner


def _write_trial(
    session: session_lib.Session, owner_id: int, number: int, num_points: int, draw: random.Random
) -> None:
    hparams = {
        "learning_rate": 10.0 ** draw.uniform(-5.0, -1.0),
        "dropout": draw.uniform(0.0, 0.5),
        "units": draw.randint(8, 512),
        "activation": draw.choice(["relu", "gelu", "tanh"]),
        "batch_size": 32,
    }
    # What is searched depends on what was chosen, so that there is something to find.
    ceiling = (
        1.0 - 0.05 * abs(math.log10(hparams["learning_rate"]) + 3.0) - 0.2 * hparams["dropout"]
    )
    accuracies = [
        ceiling * (1.0 - math.exp(-3.0 * (point + 1) / num_points)) + draw.gauss(0.0, 0.005)
        for point in range(num_points)
    ]
    losses = [-math.log(max(accuracy, 1e-3)) for accuracy in accuracies]
    if number % 100 == 99:
        losses[-1] = math.nan
    start = _START + number
    added = session.add_trial(
        trial.TrialRecord(
            id=0,
            experiment_id=owner_id,
            request_id=f"trial-{number}",
            state=_STATES[number % len(_STATES)],
            hparams=hparams,
            seed=number,
            total_batches=_BATCHES * num_points,
            best_metric=max(accuracies),
            latest_metric=accuracies[-1],
            progress=1.0,
            start_time=start,
            end_time=start + num_points,
        )
    )
    session.add_metrics(
        [
            metric.MetricRow(
                added.id,
                metric.MetricGroup.VALIDATION,
                _BATCHES * (point + 1),
                {"accuracy": accuracy, "loss": "NaN" if math.isnan(loss) else loss},
                360,
                start + point + 1,
            )
            for point, (accuracy, loss) in enumerate(zip(accuracies, losses, strict=True))
        ]
    )
