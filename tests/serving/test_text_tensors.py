import pytest

from quintain import errors
from quintain.serving import text_tensors


def test_texts_and_rows_of_them_become_strings():
    assert text_tensors.build(["a", "ü🙂\x00"]).numpy().tolist() == [b"a", "ü🙂\x00".encode()]
    assert text_tensors.build([["a", "b"], ["c", ""]]).shape == [2, 2]


@pytest.mark.parametrize("texts", [["a", "b\ud83d"], [["a", "b"], ["c", "\udcff"]]])
def test_half_a_surrogate_pair_is_named_by_its_place(texts):
    with pytest.raises(errors.DataError, match=r"text 2: is not valid Unicode\."):
        text_tensors.build(texts)
