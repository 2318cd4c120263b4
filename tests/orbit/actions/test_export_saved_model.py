import pathlib

import pytest
import tensorflow as tf

from quintain import errors
from quintain.orbit import actions


@pytest.fixture
def model():
    module = tf.Module()
    module.weight = tf.Variable(2.0)
    module.scale = tf.function(
        lambda x: x * module.weight, input_signature=[tf.TensorSpec([], tf.float32)]
    )
    return module


def _make_exports(tmp_path, *ids):
    for export_id in ids:
        (tmp_path / f"model-{export_id}").mkdir()
    return str(tmp_path / "model")


def test_exports_a_model_that_loads(tmp_path, model):
    manager = actions.ExportFileManager(str(tmp_path / "model"))

    actions.ExportSavedModel(model, manager, model.scale)({"any": "output"})

    loaded = tf.saved_model.load(str(tmp_path / "model-0"))
    assert float(loaded.scale(tf.constant(3.0))) == 6.0


def test_keeps_the_last_exports(tmp_path, model):
    manager = actions.ExportFileManager(str(tmp_path / "model"), max_to_keep=2)
    action = actions.ExportSavedModel(model, manager, model.scale)

    action({})
    model.weight.assign(4.0)
    action({})
    action({})

    assert manager.managed_files == [str(tmp_path / "model-1"), str(tmp_path / "model-2")]


def test_counts_on_from_the_exports_that_exist(tmp_path):
    manager = actions.ExportFileManager(_make_exports(tmp_path, 2, 10))

    assert [manager.next_name() for _ in range(2)] == [
        str(tmp_path / "model-11"),
        str(tmp_path / "model-12"),
    ]


def test_orders_by_number_and_leaves_other_files_alone(tmp_path):
    base_name = _make_exports(tmp_path, 2, 10, "best", "1-old")

    manager = actions.ExportFileManager(base_name, max_to_keep=1)
    manager.clean_up()

    assert manager.managed_files == [str(tmp_path / "model-10")]
    assert {path.name for path in tmp_path.iterdir()} == {"model-10", "model-best", "model-1-old"}


@pytest.mark.parametrize("max_to_keep", [-1, 0, 5])
def test_a_limit_that_is_none_keeps_all(tmp_path, max_to_keep):
    manager = actions.ExportFileManager(_make_exports(tmp_path, 1, 2, 3), max_to_keep)

    manager.clean_up()

    assert manager.managed_files == [str(tmp_path / f"model-{i}") for i in (1, 2, 3)]


def test_what_is_exported_may_be_single_files(tmp_path):
    manager = actions.ExportFileManager(str(tmp_path / "model"), 2, subdirectory="lite")
    for _ in range(3):
        name = pathlib.Path(manager.next_name())
        name.parent.mkdir()
        name.write_text("a model")
        manager.clean_up()

    assert manager.managed_files == [str(tmp_path / f"model-{i}" / "lite") for i in (1, 2)]
    assert not list((tmp_path / "model-0").iterdir())


def test_ids_and_subdirectory_may_be_given(tmp_path):
    manager = actions.ExportFileManager(
        str(tmp_path / "model"), next_id_fn=lambda: 700, subdirectory="saved_model"
    )

    assert manager.next_name() == str(tmp_path / "model-700" / "saved_model")


@pytest.mark.parametrize("subdirectory", [None, "saved_model"])
def test_only_what_was_exported_goes(tmp_path, model, subdirectory):
    manager = actions.ExportFileManager(
        str(tmp_path / "a [1] ü" / "model"), max_to_keep=1, subdirectory=subdirectory
    )
    action = actions.ExportSavedModel(model, manager, model.scale)
    action({})
    oldest = tmp_path / "a [1] ü" / "model-0"
    (oldest / "notes.txt").write_text("mine")
    (oldest / (subdirectory or "") / "variables" / "more.txt").write_text("mine")
    action({})
    action({})

    left = sorted(path.name for path in oldest.rglob("*") if path.is_file())
    assert left == ["more.txt", "notes.txt"]
    assert not (tmp_path / "a [1] ü" / "model-1" / (subdirectory or "")).exists()
    assert (tmp_path / "a [1] ü" / "model-2" / (subdirectory or "") / "saved_model.pb").exists()


def test_exports_go_where_the_url_says_and_nowhere_else(tmp_path, monkeypatch, model):
    monkeypatch.chdir(tmp_path)
    manager = actions.ExportFileManager("ram://exports/a/model/", 1, subdirectory="tpu")
    action = actions.ExportSavedModel(model, manager, model.scale)

    action({})
    action({})

    assert manager.managed_files == ["ram://exports/a/model-1/tpu"]
    loaded = tf.saved_model.load("ram://exports/a/model-1/tpu")
    assert float(loaded.scale(tf.constant(3.0))) == 6.0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("base_name", ["gs://bucket/m", "gs://bucket//m"])
def test_a_name_in_a_bucket_keeps_the_slashes_of_its_scheme_alone(base_name):
    manager = actions.ExportFileManager(base_name, next_id_fn=lambda: 7)

    assert manager.next_name() == "gs://bucket/m-7"


def test_an_export_to_where_tensorflow_cannot_write_is_refused(model):
    manager = actions.ExportFileManager("memory://exports/m", next_id_fn=lambda: 7)

    with pytest.raises(errors.ConfigError, match="base_name: got 'memory://exports/m-7'"):
        actions.ExportSavedModel(model, manager, model.scale)({})
