import pathlib
import shutil

import pytest

from quintain import errors
from quintain.nlp.tasks import sentence_prediction, translation
from quintain.serving import servable, trained_run


def copy(model_dir, tmp_path):
    return pathlib.Path(shutil.copytree(model_dir, tmp_path / "run"))


def load(directory, **arguments):
    return trained_run.load(str(directory), **arguments)


@pytest.mark.slow
def test_the_newest_checkpoint_is_taken_unless_another_is_given(model_dir):
    assert load(model_dir).checkpoint == f"{model_dir}/ckpt-2"
    assert load(model_dir, checkpoint=f"{model_dir}/ckpt-1").checkpoint == f"{model_dir}/ckpt-1"


@pytest.mark.slow
def test_the_task_is_that_of_the_run(model_dir, classifier_dir):
    assert isinstance(load(model_dir).task, translation.TranslationTask)
    assert isinstance(load(classifier_dir).task, sentence_prediction.SentencePredictionTask)


def test_of_a_damaged_checkpoint_the_one_before_is_taken(model_dir, tmp_path, caplog):
    directory = copy(model_dir, tmp_path)
    (directory / "ckpt-2.data-00000-of-00001").write_bytes(b"")

    with caplog.at_level("WARNING", logger="quintain"):
        path = trained_run.choose_checkpoint(str(directory))

    assert path == str(directory / "ckpt-1")
    assert "ckpt-2 is damaged" in caplog.text


def test_a_directory_can_be_moved(classifier_dir, tmp_path):
    directory = copy(classifier_dir, tmp_path)

    run = load(directory)

    assert run.task.vocabulary_path == str(directory / "vocabulary.model")


def test_without_a_checkpoint_it_is_said_how_to_train(tmp_path):
    with pytest.raises(errors.CheckpointError, match=r"usable checkpoint\. Train a model"):
        load(tmp_path)
    with pytest.raises(errors.CheckpointError, match="holds no usable checkpoint"):
        load(tmp_path / "nowhere")


def test_without_its_settings_a_run_is_an_error(model_dir, tmp_path):
    directory = copy(model_dir, tmp_path)
    (directory / "params.yaml").unlink()

    with pytest.raises(errors.ConfigError, match=r"params\.yaml"):
        load(directory)


def test_without_its_vocabulary_a_run_is_an_error(model_dir, tmp_path):
    directory = copy(model_dir, tmp_path)
    (directory / "vocabulary.model").unlink()

    with pytest.raises(errors.CheckpointError, match=r"holds no vocabulary\.model, without which"):
        load(directory)


def test_a_checkpoint_of_another_architecture_is_an_error(model_dir, classifier_dir):
    with pytest.raises(errors.CheckpointError) as caught:
        load(model_dir, checkpoint=f"{classifier_dir}/ckpt-1")

    assert "ckpt-1" in str(caught.value)
    assert "Traceback" not in str(caught.value)


@pytest.mark.slow
def test_a_run_on_records_serves_their_token_ids(make_classifier_run):
    data = {"input_path": "dummy", "seq_length": 16}
    names = ["de", "en", "fr"]
    directory = make_classifier_run(text_fields=[], label_names=names, validation_data=data)

    module = servable.load(directory).module

    assert sorted(module.input_spec) == ["input_mask", "input_type_ids", "input_word_ids"]


def test_other_kinds_of_runs_are_named(model_dir):
    kinds = (sentence_prediction.SentencePredictionConfig,)

    with pytest.raises(errors.ConfigError, match="holds a run of TranslationConfig, expected one "):
        trained_run.load(model_dir, kinds)
