import quintain as tfm
from quintain.config import one_of


def test_the_module_is_where_programs_for_the_reference_look_for_it():
    assert tfm.hyperparams.oneof.OneOfConfig is one_of.OneOfConfig
    assert tfm.hyperparams.OneOfConfig is one_of.OneOfConfig
