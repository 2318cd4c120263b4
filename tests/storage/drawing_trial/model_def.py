"""A trial that draws its metrics, and kills itself once at each of some batches."""

import json
import os
import pathlib
import random
import signal

from quintain.trials import base_trial


class Drawing(base_trial.Trial):
    """Needs nothing."""

    controller_module = "model_def"


class DrawingController(base_trial.TrialController):
    """Counts batches; `data.killed_at` says at which it is killed."""

    def __init__(self, trial, context):
        super().__init__(trial, context)
        self.batches = 0
        self.data = context.get_data_config()

    def train(self, num_batches):
        found = []
        for _ in range(num_batches):
            self.batches += 1
            found.append({"loss": random.random()})
            mark = pathlib.Path(self.data["marks"], str(self.batches))
            if self.batches in self.data["killed_at"] and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return base_trial.TrainResult(num_batches, found)

    def validate(self):
        return base_trial.ValidationResult({"error": random.random()}, num_inputs=1)

    def save(self, directory):
        pathlib.Path(directory, "state.json").write_text(json.dumps(self.batches))

    def restore(self, directory, *, is_warm_start):
        self.batches = json.loads(pathlib.Path(directory, "state.json").read_text())


def build_controller(trial_class, context):
    """Makes what drives the trial."""
    return DrawingController(base_trial.create_trial(trial_class, context), context)
