import pytest

from quintain.core import base_task
from quintain.nlp.tasks import translation
from quintain.trials.keras import keras_trial  # noqa: F401
from quintain.trials.process import code_check

KERAS = """
from quintain import trials


class Mine(trials.KerasTrial):
    def build_model(self): ...
    def build_training_data_loader(self): ...
    def build_validation_data_loader(self): ...
"""
METRICS = """
import keras
from keras.metrics import Precision
from quintain import trials


class Mine(trials.KerasTrial):
    def build_model(self):
        metrics = ["acc", "mae", "mse", keras.metrics.AUC(name="area"), Precision(), ours]
        metrics += [keras.metrics.LogCoshError(), keras.metrics.FBetaScore(beta=2.0)]
        metrics += [keras.metrics.FalsePositives(), keras.metrics.Mean(name="mean")]
        metrics += [keras.metrics.MeanSquaredError(name=self.name)]
        model.compile(loss="sparse_categorical_crossentropy", metrics=metrics)
    def build_training_data_loader(self): ...
    def build_validation_data_loader(self): ...
"""
OTHER = """
from quintain.trials import base_trial


class Other(base_trial.Trial):
    controller_module = "json"
"""
SETTING = "resources.processes_per_trial"


@pytest.fixture
def model_dir(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "checked_keras.py").write_text(KERAS)
    (tmp_path / "checked_other.py").write_text(OTHER)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("entrypoint", "resources", "found"),
    [
        ("checked_keras:Mine", {"slots_per_trial": 4}, {SETTING: 4}),
        ("checked_keras:Mine", {"slots_per_trial": 4, "processes_per_trial": 1}, {}),
        ("checked_keras:Mine", {"slots_per_trial": 1}, {}),
        ("checked_other:Other", {"slots_per_trial": 4}, {}),
    ],
)
def test_the_kind_of_a_trial_says_how_many_processes_train_it(
    model_dir, entrypoint, resources, found
):
    settings = {}
    config = {"entrypoint": entrypoint, "resources": resources}

    assert code_check.find_problems(config, model_dir, settings) == []
    assert settings == found


def test_a_task_says_how_its_metrics_are_ordered_and_written_and_the_config_says_it_first(
    monkeypatch,
):
    labels = {
        "token_accuracy": base_task.MetricLabel("accuracy", ".1%", best="max"),
        "perplexity": base_task.MetricLabel("perplexity", ".2f", best="min"),
        "exact_match": base_task.MetricLabel("exact", "+,"),  # Nothing that the page can write.
    }
    monkeypatch.setattr(translation.TranslationTask, "metric_labels", labels)
    settings = {}
    searcher = {"directions": {"perplexity": "max"}, "formats": {"perplexity": ".1f"}}
    config = {"entrypoint": "experiment:translation/local", "searcher": searcher}

    assert code_check.find_problems(config, None, settings) == []
    directions = settings["searcher.directions"]
    assert directions["token_accuracy"] == directions["perplexity"] == "max"
    assert directions["validation_loss"] == "min"
    assert "learning_rate" not in directions
    assert settings["searcher.formats"] == {"token_accuracy": ".1%", "perplexity": ".1f"}


def test_keras_metrics_have_the_best_values_of_their_classes(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "checked_metrics.py").write_text(METRICS)
    settings = {}
    searcher = {"directions": {"mse": "max", "rank": "max"}}
    config = {"entrypoint": "checked_metrics:Mine", "searcher": searcher}

    assert code_check.find_problems(config, str(tmp_path), settings) == []
    assert settings["searcher.directions"] == {
        "acc": "max",
        "mae": "min",
        "mse": "max",  # The config says it first.
        "rank": "max",
        "area": "max",
        "precision": "max",
        "logcosh": "min",
        "fbeta_score": "max",
        "false_positives": "min",
        "sparse_categorical_crossentropy": "min",
    }


def test_several_processes_are_refused_for_other_kinds(model_dir):
    resources = {"slots_per_trial": 2, "processes_per_trial": 2}
    config = {"entrypoint": "checked_other:Other", "resources": resources}

    (problem,) = code_check.find_problems(config, model_dir)

    assert problem.path == SETTING
    assert "got 2, but Other is trained by one process; leave it out" in problem.message
