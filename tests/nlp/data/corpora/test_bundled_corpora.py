import pytest

from quintain import errors
from quintain.nlp.data.corpora import bundled_corpora


@pytest.mark.parametrize("name", bundled_corpora.get_names())
def test_every_bundled_corpus_has_pairs(name):
    assert len(bundled_corpora.get_pairs(name)) >= 500


def test_a_reversed_corpus_has_the_same_pairs_the_other_way_round():
    pairs = bundled_corpora.get_pairs("numbers_and_dates/test")

    reversed_pairs = bundled_corpora.get_pairs("numbers_and_dates_reversed/test")

    assert len(pairs) == 1_000
    assert [(target, source) for source, target in reversed_pairs] == pairs


def test_an_unknown_name_lists_what_is_known():
    with pytest.raises(errors.ConfigError) as caught:
        bundled_corpora.get_pairs("letters")

    message = str(caught.value)
    assert message.startswith("input_path: got 'bundled:letters', expected one of 'bundled:numbers")
    assert "Did you mean" not in message
