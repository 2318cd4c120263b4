import dataclasses

import pytest
import tensorflow as tf

from quintain import errors
from quintain.nlp.data import data_loader, data_loader_factory, wmt_dataloader
from quintain.settings import config_definitions as cfg


@dataclasses.dataclass
class NumbersConfig(cfg.DataConfig):
    count: int = 3


@dataclasses.dataclass
class MoreNumbersConfig(NumbersConfig):
    count: int = 5


@pytest.fixture(autouse=True)
def _numbers_are_registered():
    with data_loader_factory.LOADERS.temporarily():

        @data_loader_factory.register_data_loader_cls(NumbersConfig)
        class NumbersLoader(data_loader.DataLoader):
            def __init__(self, params):
                self.params = params

            def load(self, input_context=None):
                return tf.data.Dataset.range(self.params.count)

        yield


@pytest.mark.parametrize(("config", "count"), [(NumbersConfig(), 3), (MoreNumbersConfig(), 5)])
def test_a_config_or_its_base_finds_its_loader(config, count):
    loader = data_loader_factory.get_data_loader(config)

    assert [int(number) for number in loader.load()] == list(range(count))


def test_a_translation_config_has_a_loader():
    loader = data_loader_factory.get_data_loader(wmt_dataloader.WMTDataConfig())

    assert isinstance(loader, wmt_dataloader.WMTDataLoader)


def test_a_config_without_loader_is_an_error_that_says_what_to_do():
    with pytest.raises(errors.RegistryError, match=r"class 'DataConfig' .*register_data_loader_cl"):
        data_loader_factory.get_data_loader(cfg.DataConfig())


def test_a_second_loader_for_a_config_is_an_error():
    with pytest.raises(errors.RegistryError, match="NumbersConfig is registered already"):
        data_loader_factory.register_data_loader_cls(NumbersConfig)(wmt_dataloader.WMTDataLoader)


def test_a_loader_without_load_can_not_be_built():
    class Empty(data_loader.DataLoader):
        pass

    with pytest.raises(TypeError, match="abstract method"):
        Empty()
