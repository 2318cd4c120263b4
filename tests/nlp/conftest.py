import keras
import pytest
import tensorflow as tf

from quintain.core import run_files
from quintain.nlp import experiments
from quintain.nlp.tasks import translation


def build_params(corpus_path):
    layers = {"num_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    params = experiments.translation.translation_local()
    params.override(
        {
            "task": {
                "model": {
                    "encoder": layers,
                    "decoder": layers,
                    "embedding_width": 16,
                    "beam_size": 2,
                    "decode_max_length": 8,
                },
                "train_data": {"input_path": str(corpus_path)},
                "vocab_size": 40,
            }
        }
    )
    return params


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory):
    """A directory as training leaves it, with two checkpoints of different weights."""
    corpus = tmp_path_factory.mktemp("corpus") / "train.tsv"
    corpus.write_text("red house\trotes Haus\ngreen tree\tgrüner Baum\n" * 20, encoding="utf-8")
    directory = str(tmp_path_factory.mktemp("run"))
    params = build_params(corpus)
    run_files.serialize_config(params, directory, experiment="translation/local")
    task = translation.TranslationTask(params.task, logging_dir=directory)
    for step in (1, 2):
        keras.utils.set_random_seed(step)
        tf.train.Checkpoint(model=task.build_model()).write(f"{directory}/ckpt-{step}")
    corpus.unlink()
    return directory
