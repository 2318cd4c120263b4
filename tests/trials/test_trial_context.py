import pytest

from quintain import trials


@pytest.mark.parametrize(
    ("url", "is_valid"),
    [
        ("https://data.example.org/mnist/", True),
        ("s3://bucket/mnist", True),
        ("data.example.org/mnist", False),
        ("/data/mnist", False),
        ("http://[::1", False),
        ("", False),
    ],
)
def test_an_address_has_a_scheme_and_a_host(url, is_valid):
    assert trials.is_valid_url(url) is is_valid
