import sys

import pytest


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Returns a package with a module, one in a room, and a class that a module offers."""
    directory = tmp_path / "lazy_package"
    (directory / "room").mkdir(parents=True)
    (directory / "__init__.py").write_text(
        "from quintain import lazy_modules\n"
        "__getattr__, __dir__ = lazy_modules.attach(\n"
        "    __name__,\n"
        "    ('plain',),\n"
        "    names={'room.inner': ('Thing',)},\n"
        ")\n"
    )
    (directory / "plain.py").write_text("")
    (directory / "room" / "__init__.py").write_text("")
    (directory / "room" / "inner.py").write_text("class Thing: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    import lazy_package  # noqa: PLC0415 - it has just been written

    yield lazy_package
    for name in [name for name in sys.modules if name.partition(".")[0] == "lazy_package"]:
        del sys.modules[name]


def test_modules_are_imported_when_they_are_first_used(package):
    assert "lazy_package.plain" not in sys.modules

    assert package.plain is sys.modules["lazy_package.plain"]


def test_names_are_those_of_the_modules_that_have_them(package):
    thing = package.Thing

    assert thing is sys.modules["lazy_package.room.inner"].Thing


def test_an_unknown_name_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match="module 'lazy_package' has no attribute 'plane'"):
        _ = package.plane


def test_everything_is_listed_before_it_is_imported(package):
    assert {"plain", "Thing"} <= set(dir(package))
    assert "lazy_package.plain" not in sys.modules


@pytest.mark.parametrize("name", ["quintain.core", "quintain.nlp", "quintain.optimization"])
def test_all_that_packages_offer_is_there(name):
    offered = __import__(name, fromlist=["__name__"])

    assert all(hasattr(offered, one) for one in dir(offered))
