import functools
import importlib
import importlib.util
import pickle
import runpy
import sys

import keras
import pytest

import quintain
import quintain.config.base_config as ours
import quintain.modeling.hyperparams as hyperparams
from quintain.modeling import optimization
from quintain.modeling.hyperparams import base_config
from quintain.nlp.modeling.layers import cls_head
from quintain.nlp.modeling.layers.cls_head import GaussianProcessClassificationHead
from quintain.nlp.modeling.models import bert_classifier, t5
from quintain.nlp.modeling.models.t5 import T5Transformer
from quintain.reference import reference_names


@pytest.mark.parametrize("path", sorted(reference_names.MOVED))
def test_every_moved_module_has_a_home(path):
    home = reference_names.find_home(path)

    assert home is not None
    assert importlib.util.find_spec(home) is not None
    assert path not in reference_names.REFUSED


def test_tables_are_sorted():
    assert list(reference_names.MOVED) == sorted(reference_names.MOVED)
    assert list(reference_names.REFUSED) == sorted(reference_names.REFUSED)


def test_a_moved_module_is_one_module_under_both_names():
    assert base_config is ours
    assert hyperparams is quintain.config is quintain.modeling.hyperparams
    assert importlib.import_module("quintain.modeling.hyperparams.base_config") is ours
    assert (ours.__name__, ours.__spec__.name) == ("quintain.config.base_config",) * 2
    assert pickle.loads(pickle.dumps(base_config.Config)) is ours.Config
    assert (
        importlib.reload(importlib.import_module("quintain.modeling.hyperparams.oneof")) is not None
    )


def test_a_module_of_a_moved_package_is_an_attribute_of_it():
    assert optimization.ema_optimizer is importlib.import_module("quintain.optimization.ema")


def test_a_moved_module_runs_as_a_program():
    found = runpy._get_module_details("quintain.modeling.hyperparams.type_words")

    assert found[2].co_filename == importlib.import_module("quintain.config.type_words").__file__


def test_what_is_refused_can_be_imported_beside_others_and_says_why_when_it_is_used():
    assert issubclass(cls_head.ClassificationHead, keras.layers.Layer)
    with pytest.raises(AttributeError, match=r"`quintain\.nlp\.modeling\.models\.t5` is not offer"):
        _ = t5.T5TransformerParams
    with pytest.raises(ImportError, match="T5 is not offered"):
        T5Transformer()
    with pytest.raises(ImportError, match="T5 is not offered"):
        isinstance(bert_classifier, T5Transformer)
    with pytest.raises(ImportError, match="heads that are Gaussian processes"):

        class Head(GaussianProcessClassificationHead):
            pass


def test_importing_what_is_refused_logs_why(caplog):
    importlib.import_module("quintain.vision.tasks")

    assert "`quintain.vision.tasks` is not offered. The Model Garden's models of im" in caplog.text


def test_what_is_refused_is_no_attribute_of_its_package():
    with pytest.raises(AttributeError, match="Uplift models are not offered"):
        _ = quintain.uplift
    assert not hasattr(quintain, "uplift")


def test_what_is_refused_does_not_run_as_a_program():
    with pytest.raises(ImportError, match="is not offered"):
        runpy.run_module("quintain.nlp.tools.export_tfhub")


@pytest.mark.parametrize(
    ("name", "home"),
    [
        ("core.actions", "run.actions"),
        ("core.savedmodel_checkpoint_manager", "garden.core.savedmodel_checkpoint_manager"),
        ("hyperparams.params_dict", "garden.config.params_dict"),
        ("nlp.encoders", "nlp.configs.encoders"),
        ("nlp.layers", "nlp.modeling.layers"),
        ("nlp.losses", "nlp.modeling.losses"),
        ("nlp.models", "nlp.modeling.models"),
        ("nlp.networks", "nlp.modeling.networks"),
        ("nlp.ops", "nlp.modeling.ops"),
        ("nlp.serving_modules", "garden.nlp.serving.serving_modules"),
        ("nlp.tasks", "nlp.tasks"),
        ("optimization.lr_schedule", "optimization.schedules.lr_schedule"),
    ],
)
def test_the_library_is_an_attribute_of_the_package(name, home):
    module = functools.reduce(getattr, name.split("."), quintain)

    assert module.__name__ == f"quintain.{home}"
    assert name.split(".")[-1] in dir(sys.modules[f"quintain.{name.split('.')[0]}"])


def test_tools_of_the_library_are_under_one_name():
    assert quintain.utils.get_activation("relu") is keras.activations.relu


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(reference_names.REFUSED))
def test_every_refusal_is_shown_where_the_name_is_used(path):
    *packages, name = f"quintain.{path}".split(".")
    names = {}

    exec(f"from {'.'.join(packages)} import {name}", names)

    with pytest.raises(ImportError, match="is not offered") as caught:
        names[name]()
    assert reference_names.REFUSED[path] in str(caught.value)


def test_an_unknown_module_is_not_found():
    with pytest.raises(ModuleNotFoundError, match=r"quintain\.modeling\.hyperparams\.nothing"):
        importlib.import_module("quintain.modeling.hyperparams.nothing")
