from quintain.cli.experiment import provenance
from quintain.records.config import experiment_spec
from quintain.records.rows import experiment, states

TEXT = """\
searcher:
  name: single
  metric: loss
  max_steps: 3
batches_per_step: 50
max_restarts: 2
hyperparameters: {rate: 0.1}
reproducibility: {experiment_seed: 1}
"""


def test_each_value_says_what_has_set_it():
    content = {
        "searcher": {"name": "single", "metric": "loss", "max_steps": 3},
        "batches_per_step": 50,
        "max_restarts": 4,
        "hyperparameters": {"rate": 0.1},
        "reproducibility": {"experiment_seed": 1},
    }
    config = experiment_spec.parse(content).as_dict()
    record = experiment.Experiment(1, states.ExperimentState.ACTIVE, config, TEXT, "/m")
    lines = provenance.annotate(record).splitlines()
    found = {line.partition("#")[0].strip(): line.partition("# ")[2] for line in lines}
    assert found["max_restarts: 4"] == "changed"
    assert found["metric: loss"] == "line 3"
    assert found["max_length: 3"] == "line 4"
    assert found["scheduling_unit: 50"] == "line 5"
    assert found["checkpoint_policy: best"] == "default"
