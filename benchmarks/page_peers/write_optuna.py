"""Writes the trials of a store into a study of Optuna: `write_optuna.py DATABASE TARGET`."""

import json
import sqlite3
import sys

import optuna
from optuna import distributions, trial

SPACE = {
    "learning_rate": distributions.FloatDistribution(1e-5, 1e-1, log=True),
    "dropout": distributions.FloatDistribution(0.0, 0.5),
    "units": distributions.IntDistribution(8, 512),
    "activation": distributions.CategoricalDistribution(["relu", "gelu", "tanh"]),
}


def main() -> None:
    """Writes all trials at once."""
    source, target = sys.argv[1:]
    database = sqlite3.connect(source)
    rows = database.execute("SELECT hparams, best_metric FROM trials ORDER BY id").fetchall()
    trials = []
    for hparams, value in rows:
        params = {name: given for name, given in json.loads(hparams).items() if name in SPACE}
        trials.append(trial.create_trial(params=params, distributions=SPACE, value=value))
    study = optuna.create_study(
        storage=f"sqlite:///{target}", study_name="made", direction="maximize"
    )
    study.add_trials(trials)


if __name__ == "__main__":
    main()
