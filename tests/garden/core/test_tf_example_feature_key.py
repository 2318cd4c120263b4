"""Names with and without a prefix."""

from quintain.garden.core import tf_example_feature_key


@tf_example_feature_key.dataclass
class ImageKey(tf_example_feature_key.TfExampleFeatureKeyBase):
    encoded: str = "image/encoded"
    height: str = "image/height"


def test_prefix_goes_before_every_name_of_an_instance():
    key = ImageKey("left")

    assert (key.encoded, key.height) == ("left/image/encoded", "left/image/height")


def test_names_stay_without_a_prefix():
    assert ImageKey("") == ImageKey(None) == ImageKey()
    assert ImageKey().encoded == "image/encoded"
