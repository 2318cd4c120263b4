import pytest
import tensorflow as tf
from absl import flags

from quintain.garden.common import flags as tfm_flags
from quintain.garden.utils import hyperparams_flags
from quintain.garden.utils.flags import core
from quintain.garden.utils.testing import mock_task  # noqa: F401 - registers its experiment
from quintain.run import experiment_parser


@pytest.fixture
def values(monkeypatch):
    """Flags that no other test sees."""
    own = flags.FlagValues()
    for module in (core, hyperparams_flags):
        monkeypatch.setattr(module.flags, "FLAGS", own, raising=True)
    monkeypatch.setattr(hyperparams_flags, "FLAGS", own)
    for name in ("string", "enum", "boolean", "bool", "integer", "float", "list", "multi_string"):
        define = getattr(flags, f"DEFINE_{name}")
        monkeypatch.setattr(
            flags, f"DEFINE_{name}", lambda *a, _d=define, **k: _d(*a, flag_values=own, **k)
        )
    monkeypatch.setattr(
        flags, "register_validator", _bind(flags.register_validator, own), raising=True
    )
    return own


def _bind(register, values):
    return lambda *arguments: register(*arguments, flag_values=values)


def test_the_flags_of_a_training_program_describe_its_config(values):
    tfm_flags.define_flags()
    values(["program", "--experiment=mock", "--params_override=trainer.train_steps=7"])

    params = experiment_parser.parse_configuration(values, lock_return=False)

    assert params.trainer.train_steps == 7
    assert values.mode is None


def test_groups_of_flags_have_their_defaults_and_checks(values):
    core.define_base(num_gpu=True)
    core.define_performance(dtype=True, loss_scale=True)
    values(["program", "-bs=4", "--dtype=fp16"])

    assert (values.batch_size, values.num_gpus, values.data_dir) == (4, 1, "/tmp")
    assert core.get_tf_dtype(values) is tf.float16
    assert core.get_loss_scale(values, default_for_fp16="dynamic") == "dynamic"
    assert core.get_nondefault_flags_as_str() == "--batch_size=4 --dtype=fp16"
    with pytest.raises(flags.IllegalFlagValueError, match="positive number or 'dynamic'"):
        values.loss_scale = "-1"


def test_flags_of_parameters_come_as_dictionaries(values):
    hyperparams_flags.initialize_common_flags()
    core.define_base(model_dir=False, batch_size=False)
    values(["program", "--num_packs=2", "--train_batch_size=8"])

    assert hyperparams_flags.strategy_flags_dict()["num_packs"] == 2
    assert hyperparams_flags.strategy_flags_dict()["num_gpus"] == 0
    assert hyperparams_flags.hparam_flags_dict()["train_batch_size"] == 8
