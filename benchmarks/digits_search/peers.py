"""The search benchmark's peers: python peers.py ray|optuna TRIALS SLOTS [RAY_ADDRESS].

It prints one line of JSON. With an address, Ray Tune uses the cluster that is there.

Both train the trials of `digits.py` with successive halving as their documentation shows it, one
trial on each slot. Optuna runs one process for each slot on a storage that they share.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any


def train_ray(config: dict[str, Any]) -> None:
    """Trains one trial and reports it after every rung, until it is stopped."""
    import digits
    from ray import tune

    digits.fit(
        config,
        lambda batches, loss, accuracy: tune.report(
            {"loss": loss, "accuracy": accuracy, "batches": batches}
        ),
    )


def search_ray(num_trials: int, num_slots: int, address: str = "") -> dict[str, Any]:
    """Searches with Ray Tune's ASHA."""
    import digits
    import ray
    from ray import tune

    here = str(pathlib.Path(__file__).parent)
    start = time.perf_counter()
    ray.init(
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": here}},
        **(
            {"address": address} if address else {"num_cpus": num_slots, "include_dashboard": False}
        ),
    )
    with tempfile.TemporaryDirectory() as directory:
        tuner = tune.Tuner(
            tune.with_resources(train_ray, {"cpu": 1}),
            param_space={
                "learning_rate": tune.loguniform(*digits.LEARNING_RATE),
                "units": tune.randint(digits.UNITS[0], digits.UNITS[1] + 1),
                "dropout": tune.uniform(*digits.DROPOUT),
            },
            tune_config=tune.TuneConfig(
                metric="loss",
                mode="min",
                num_samples=num_trials,
                scheduler=tune.schedulers.ASHAScheduler(
                    time_attr="batches",
                    max_t=digits.RUNGS[-1] + 1,
                    grace_period=digits.RUNGS[0],
                    reduction_factor=digits.REDUCTION_FACTOR,
                ),
            ),
            run_config=tune.RunConfig(storage_path=directory, verbose=0),
        )
        results = tuner.fit()
        secs = time.perf_counter() - start
    ray.shutdown()
    return {
        "secs": secs,
        "trials": len(results),
        "batches": sum(int(result.metrics["batches"]) for result in results),
        "best": results.get_best_result().metrics["loss"],
    }


def work_optuna(storage: str, num_trials: int) -> None:
    """Runs trials of a shared study until all are done."""
    import digits
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def objective(trial: optuna.Trial) -> float:
        hparams = {
            "learning_rate": trial.suggest_float("learning_rate", *digits.LEARNING_RATE, log=True),
            "units": trial.suggest_int("units", *digits.UNITS),
            "dropout": trial.suggest_float("dropout", *digits.DROPOUT),
        }
        losses = []

        def report(batches: int, loss: float, accuracy: float) -> None:
            del accuracy
            losses.append(loss)
            trial.report(loss, step=batches)
            if trial.should_prune():
                raise optuna.TrialPruned

        digits.fit(hparams, report)
        return losses[-1]

    study = optuna.load_study(
        study_name="digits",
        storage=optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(storage)),
        sampler=optuna.samplers.RandomSampler(),
        pruner=optuna.pruners.SuccessiveHalvingPruner(
            min_resource=digits.RUNGS[0], reduction_factor=digits.REDUCTION_FACTOR
        ),
    )
    study.optimize(
        objective,
        callbacks=[
            optuna.study.MaxTrialsCallback(
                num_trials,
                states=(optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED),
            )
        ],
    )


def search_optuna(num_trials: int, num_slots: int) -> dict[str, Any]:
    """Searches with one Optuna process for each slot."""
    import optuna

    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "journal.log")
        storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(path))
        study = optuna.create_study(study_name="digits", storage=storage)
        workers = [
            subprocess.Popen([sys.executable, __file__, "optuna-worker", path, str(num_trials)])
            for _ in range(num_slots)
        ]
        if sum(worker.wait() for worker in workers):
            raise SystemExit("a worker of Optuna failed")
        secs = time.perf_counter() - start
        trials = study.get_trials()
    return {
        "secs": secs,
        "trials": len(trials),
        "batches": sum(max(trial.intermediate_values, default=0) for trial in trials),
        "best": min(trial.value for trial in trials if trial.value is not None),
    }


if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    if name == "optuna-worker":
        work_optuna(arguments[0], int(arguments[1]))
    else:
        search = {"ray": search_ray, "optuna": search_optuna}[name]
        print(json.dumps(search(int(arguments[0]), int(arguments[1]), *arguments[2:])))
