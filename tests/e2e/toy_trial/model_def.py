"""A trial without TensorFlow: the loss falls by a factor that depends on the rate."""

import json
import pathlib
import time

from quintain.trials import base_trial


class ToyTrial(base_trial.Trial):
    """Needs nothing but its hyperparameters."""

    controller_module = "model_def"


class ToyController(base_trial.TrialController):
    """Counts batches; `data.secs_per_batch` makes it slow, until there is `data.slow_until`.

    A search that is slow for as long as a test looks at it ends too soon on no busy machine.
    """

    def __init__(self, trial, context):
        super().__init__(trial, context)
        self.loss = 100.0
        self.batches = 0
        self.rate = context.get_hparam("rate")
        self.secs = context.get_data_config().get("secs_per_batch", 0.0)
        self.slow_until = context.get_data_config().get("slow_until")
        print(f"hello from trial {context.get_trial_id()}")
        if context.get_data_config().get("fails") and self.rate > 0.5:
            raise ValueError("the rate is too high for me")

    def train(self, num_batches):
        losses = []
        for _ in range(num_batches):
            if self.slow_until is None or not pathlib.Path(self.slow_until).exists():
                time.sleep(self.secs)
            self.loss *= 1 - 0.01 * self.rate
            self.batches += 1
            losses.append({"loss": self.loss})
        print(f"trained to {self.batches}")
        return base_trial.TrainResult(num_inputs=num_batches, batch_metrics=losses)

    def validate(self):
        return base_trial.ValidationResult({"error": self.loss}, num_inputs=1)

    def save(self, directory):
        state = {"loss": self.loss, "batches": self.batches}
        pathlib.Path(directory, "state.json").write_text(json.dumps(state))

    def restore(self, directory, *, is_warm_start):
        state = json.loads(pathlib.Path(directory, "state.json").read_text())
        self.loss, self.batches = state["loss"], state["batches"]


def build_controller(trial_class, context):
    """Makes what drives the trial."""
    return ToyController(base_trial.create_trial(trial_class, context), context)
