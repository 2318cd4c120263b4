import keras
import pytest

from quintain import errors
from quintain.optimization import serializable
from quintain.optimization.rules import adam


def test_two_classes_of_one_name_are_an_error_that_names_both():
    other = type("Adam", (keras.optimizers.Adam,), {"__module__": "elsewhere"})

    with pytest.raises(
        errors.RegistryError,
        match=r"quintain\.optimization\.rules\.adam\.Adam .* elsewhere\.Adam needs",
    ):
        serializable.register(other)

    assert keras.saving.get_registered_object("quintain>Adam") is adam.Adam


def test_a_module_that_is_loaded_anew_registers_its_classes_again():
    again = type("Adam", (keras.optimizers.Adam,), {"__module__": adam.Adam.__module__})

    try:
        assert serializable.register(again) is again
        assert keras.saving.get_registered_object("quintain>Adam") is again
    finally:
        assert serializable.register(adam.Adam) is adam.Adam
