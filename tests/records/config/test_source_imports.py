import pathlib
import sys

import pytest

from quintain.records.config import source_imports


@pytest.fixture
def find(tmp_path, monkeypatch):
    """Returns what is found in files given by name, where three libraries are installed."""
    installed = tmp_path / "site-packages"
    for path in ("lib/__init__.py", "lib/data.py", "lib/deep/__init__.py", "other.py", "third.py"):
        file = installed / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (tmp_path / "on_path").mkdir()
    (tmp_path / "on_path" / "changing.py").touch()
    monkeypatch.setattr(sys, "path", [*sys.path, str(installed), str(tmp_path / "on_path")])
    source_imports._find_installed.cache_clear()

    def write_and_find(files):
        for name, text in files.items():
            path = tmp_path / "code" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return source_imports.find_libraries(tmp_path / "code")

    yield write_and_find
    source_imports._find_installed.cache_clear()


_TRIAL = "\nclass Digits(KerasTrial): ..."


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import lib, other", ("lib", "other")),
        ("import lib.deep as deep", ("lib.deep",)),
        ("from lib import data, function", ("lib", "lib.data")),
        ("try:\n  import lib\nexcept ImportError:\n  import other", ("lib",)),
        ("def build():\n  import lib", ()),
        ("if TYPE_CHECKING:\n  import lib", ()),
        ("import json, keras, numpy, tensorflow.keras, quintain, absent, changing", ()),
        ("from . import lib", ()),
        ("import lib\nthis is no Python", ()),
    ],
)
def test_imports_at_the_top_name_installed_libraries(find, source, expected):
    assert find({"model_def.py": source + _TRIAL}) == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("os.environ['HF_HOME'] = '/data'", ("lib",)),
        ("os.environ.setdefault('HF_HOME', '/data')", ("lib",)),
        ("os.environ |= settings", ("lib",)),
        ("prepare(os.environ)", ("lib",)),
        ("if slow:\n  os.putenv('A', 'b')", ("lib",)),
        ("from os import environ", ("lib",)),
        ("sys.path.insert(0, '/my/libraries')", ("lib",)),
        ("sys.modules['other'] = lib", ("lib",)),
        ("os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'", ("lib", "other")),
        ("os.environ.setdefault('KERAS_BACKEND', 'tensorflow')", ("lib", "other")),
        ("home = os.environ['HOME'], os.environ.get('A'), 'B' in os.environ", ("lib", "other")),
        ("def later(): os.environ['A'] = 'b'", ("lib", "other")),
    ],
)
def test_what_may_depend_on_changes_by_the_code_is_left_out(find, statement, expected):
    assert find({"model_def.py": f"import lib\n{statement}\nimport other{_TRIAL}"}) == expected


def test_own_files_are_followed_in_the_order_of_their_imports(find):
    files = {
        "model_def.py": "import package.parts\nfrom package import late\nimport other" + _TRIAL,
        "package/__init__.py": "from . import early",
        "package/early.py": "import lib",
        "package/parts.py": "from .early import name",
        "package/late.py": "import os\nos.environ['A'] = 'b'\nimport lib.deep",
        "plot.py": "import third",
    }
    assert find(files) == ("lib",)


def test_files_of_the_user_come_before_libraries_of_that_name(find):
    assert find({"model_def.py": "import lib, other" + _TRIAL, "lib.py": ""}) == ("other",)


def test_circles_of_imports_end(find):
    assert find({"model_def.py": "import twin\nimport lib" + _TRIAL, "twin.py": "import model_def"})


def test_only_modules_that_an_import_ahead_brings_are_noted(monkeypatch):
    monkeypatch.setattr(source_imports, "imported_ahead", set())
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    for name in ("brought", "keras"):
        with source_imports.imports_noted(name):
            sys.modules[f"{name}_part"] = pathlib
    assert source_imports.imported_ahead == {"brought_part"}
