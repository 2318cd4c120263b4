"""Presets that are downloaded, from a hub that is a directory."""

import pathlib
import shutil

import huggingface_hub
import kagglehub
import pytest

from quintain import errors
from quintain.hub import configs, presets
from tests.hub import tiny_presets

PRESETS = ["hf://me/bert", "kaggle://me/bert/keras/tiny", "bert_tiny_en_uncased"]


@pytest.fixture
def hub(monkeypatch, tmp_path, bert_preset):
    """Returns a directory of revisions, the last of which is downloaded."""
    directory = tmp_path / "hub"
    shutil.copytree(bert_preset, directory / "1")

    def find(file):
        path = max(directory.iterdir()) / file
        return str(path) if path.exists() else None

    def download_from_hf(repo_id, filename):
        assert repo_id == "me/bert"
        if found := find(filename):
            return found
        raise huggingface_hub.errors.LocalEntryNotFoundError("Please check your connection")

    def download_from_kaggle(handle, path):
        assert handle.startswith(("me/bert/keras/tiny", "keras/bert/keras/bert_tiny_en_uncased"))
        if found := find(path):
            return found
        raise ValueError(f"{path} is not present in the model files")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download_from_hf)
    monkeypatch.setattr(kagglehub, "model_download", download_from_kaggle)
    return directory


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_a_downloaded_preset_is_that_of_its_directory(preset, hub, bert_preset):
    loaded, local = (
        presets.load_model(configs.ModelConfig(preset=one), "MaskedLM", 0).backbone.weights
        for one in (preset, bert_preset)
    )

    assert presets.hash_variables(loaded) == presets.hash_variables(local)
    assert presets.load_tokenizer(preset).vocabulary_size() == len(tiny_presets.PIECES)
    assert presets.find_revision(preset) == "1"


@pytest.mark.slow
def test_a_run_goes_on_with_the_revision_that_it_began_with(hub, train, tmp_path, capfd):
    assert train(tmp_path / "run", preset="hf://me/bert", steps=3) == 0
    tiny_presets.make("bert", hub, seed=2)
    shutil.move(hub / "bert", hub / "2")

    assert train(tmp_path / "run", preset="hf://me/bert", steps=6) != 0
    assert "It was revision 1, and is 2." in capfd.readouterr().err
    shutil.rmtree(hub / "2")
    assert train(tmp_path / "run", preset="hf://me/bert", steps=6) == 0


def test_a_directory_goes_before_a_name_that_keras_hub_knows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert presets.find("bert_tiny_en_uncased") == "bert_tiny_en_uncased"

    pathlib.Path("bert_tiny_en_uncased").mkdir()

    assert presets.find("bert_tiny_en_uncased") == str(tmp_path / "bert_tiny_en_uncased")


@pytest.mark.parametrize(
    ("preset", "message"),
    [
        ("hf://me/bert", "'hf://me/bert' can't be loaded: Please check your connection. Check the"),
        ("kaggle://me/bert/keras/tiny", "Without a network, give a directory: `save_to_preset`"),
        ("kaggle://me/bert", "Kaggle model handles should have the form kaggle://{org}"),
        ("modelscope://me/bert", "Install it with `pip install modelscope`, or give a directory"),
        ("bert_tiny_uncased", "no name that KerasHub knows. Did you mean 'bert_tiny_en_uncased'?"),
    ],
)
def test_a_preset_that_cannot_be_had_says_how_to_get_it(preset, message, hub):
    shutil.rmtree(hub / "1")
    (hub / "1").mkdir()

    with pytest.raises(errors.ConfigError) as found:
        presets.load_tokenizer(preset)

    assert message in str(found.value)
