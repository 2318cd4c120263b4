import pytest

from quintain import errors, registry


def make_registry():
    known = registry.Registry[str, int]("number")
    known.register("wmt/base")(1)
    known.register("wmt/large")(2)
    return known


def test_lookup_returns_what_was_registered():
    known = make_registry()

    assert known.lookup("wmt/large") == 2
    assert "wmt/base" in known
    assert known.keys() == ["wmt/base", "wmt/large"]


@pytest.mark.parametrize(
    ("name", "nearest"), [("wmt/larg", "wmt/large"), ("wmt", "wmt/base"), ("wmt/", "wmt/base")]
)
def test_an_unknown_name_lists_what_is_known_and_the_nearest(name, nearest):
    with pytest.raises(LookupError) as caught:
        make_registry().lookup(name)

    assert f"Unknown number {name!r}" in str(caught.value)
    assert "Known: 'wmt/base', 'wmt/large'." in str(caught.value)
    assert f"Did you mean {nearest!r}" in str(caught.value)


def test_a_name_can_be_registered_once():
    with pytest.raises(errors.RegistryError, match="registered already"):
        make_registry().register("wmt/base")(3)


def test_temporary_entries_are_forgotten():
    known = make_registry()

    with known.temporarily():
        known.register("x")(3)
        inside = "x" in known

    assert inside
    assert "x" not in known
