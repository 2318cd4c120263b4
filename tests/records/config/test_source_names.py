import pytest

from quintain.records.config import source_names


@pytest.mark.parametrize(
    ("code", "used"),
    [
        ("import a.Mine\n", True),
        ("from a import Mine as other\n", True),
        ("@a.Mine('x')\ndef f(): pass\n", True),
        ("class Other(Mine): pass\n", True),
        ("# Mine\nx = 'Mine'\n", False),
        ("MineToo = 1\n", False),
        ("x = (  # Mine\n", True),
        ("x = (\n", False),
    ],
    ids=["import", "from", "decorator", "base", "words", "longer", "broken", "broken elsewhere"],
)
def test_names_in_code_count_and_words_in_comments_and_texts_do_not(tmp_path, code, used):
    path = tmp_path / "model.py"
    path.write_text(code)

    assert source_names.find_used(path, {"Mine", "Yours"}) == ({"Mine"} if used else set())


def test_below_a_directory_links_are_not_followed_and_a_bound_is_kept(tmp_path):
    code = tmp_path / "a [1] ü"
    code.mkdir()
    (code / "model.py").write_text("Mine()")
    (tmp_path / "elsewhere.py").write_text("Yours()")
    for name in ("a", "b"):
        (code / name).symlink_to(tmp_path)

    assert source_names.find_used_below(code, {"Mine", "Yours"}) == {"Mine"}
    assert source_names.find_used_below(code, {"Mine", "Yours"}, most=0) == set()
