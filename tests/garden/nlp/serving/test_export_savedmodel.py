import pytest

from quintain import errors
from quintain.core import base_task
from quintain.garden.nlp.serving import export_savedmodel, serving_modules
from quintain.nlp.tasks import masked_lm
from quintain.settings import config_definitions as cfg

FILE = """
runtime: {distribution_strategy: one_device}
task:
  model:
    cls_heads: [{name: next_sentence, inner_dim: 2}]
    encoder:
      bert: {vocab_size: 11, hidden_size: 4, num_layers: 1, num_attention_heads: 2,
             intermediate_size: 4, max_position_embeddings: 6}
  train_data: {seq_length: 6, max_predictions_per_seq: 2, something_else: 1}
"""


class MyTask(masked_lm.MaskedLMTask):
    pass


class OtherTask(base_task.Task):
    def build_inputs(self, params, input_context=None):
        raise NotImplementedError


def test_a_file_of_an_experiment_makes_a_model_and_what_serves_it(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text(FILE)

    module = export_savedmodel.create_export_module(
        task_name="MaskedLM",
        config_file=str(path),
        serving_params={"parse_sequence_length": 6},
    )

    assert isinstance(module, serving_modules.MaskedLM)
    assert module.params.parse_sequence_length == 6
    assert module.model.count_params() > 0


def test_other_tasks_are_errors():
    assert export_savedmodel.lookup_export_module(MyTask(masked_lm.MaskedLMConfig())) is (
        serving_modules.MaskedLM
    )
    with pytest.raises(errors.RegistryError, match=r"SERVING_MODULES\[OtherTask\]"):
        export_savedmodel.lookup_export_module(OtherTask(cfg.TaskConfig()))
    with pytest.raises(errors.RegistryError, match="Did you mean 'MaskedLMConfig'"):
        export_savedmodel.create_export_module(
            task_name="MaskdLMConfig", config_file="", serving_params={}
        )
