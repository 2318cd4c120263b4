import pytest

from quintain.core import exp_factory
from quintain.nlp.data import wmt_dataloader
from quintain.run import train_lib
from quintain.serving import translator

NAME = "multitask/translation_local"


def test_both_directions_read_the_same_pairs():
    params = exp_factory.get_exp_config(NAME)

    params.validate()
    forth, back = (routine.task_config for routine in params.task.task_routines)

    assert [routine.name for routine in params.task.task_routines] == ["en_de", "de_en"]
    assert (back.train_data.src_lang, back.train_data.tgt_lang) == ("de", "en")
    pairs = wmt_dataloader.read_pairs(forth.validation_data)
    assert wmt_dataloader.read_pairs(back.validation_data) == [(b, a) for a, b in pairs]


@pytest.mark.long("tests/core/multitask trains two tasks in every run")
@pytest.mark.slow
def test_it_trains_and_its_directory_translates(tmp_path):
    params = exp_factory.get_exp_config(NAME)
    small = {"num_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = {"embedding_width": 16, "encoder": small, "decoder": small, "beam_size": 1}
    for routine in params.task.task_routines:
        routine.task_config.override(
            {
                "model": model,
                "max_vocab_pairs": 2000,
                "vocab_size": 300,
                "print_translations": False,
                "train_data": {"global_batch_size": 512},
                "validation_data": {"global_batch_size": 8},
            }
        )
    params.trainer.override(
        {"train_steps": 4, "steps_per_loop": 2, "summary_interval": 2, "validation_steps": 1}
    )

    result = train_lib.train_from_config(params, "train_and_eval", str(tmp_path), experiment=NAME)

    assert {"en_de", "de_en"} <= set(result.logs)
    assert "sacrebleu_score" in result.logs["de_en"]
    # The directory's own files are enough, with the sizes of the registered experiment overridden.
    texts = translator.Translator.from_model_dir(str(tmp_path)).translate(["the third of May", " "])
    assert len(texts) == 2
    assert texts[1] == ""
