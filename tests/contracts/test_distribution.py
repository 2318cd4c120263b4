"""What is uploaded: a wheel and a source archive that PyPI takes, and whose page stands alone."""

import email
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile

import pytest

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The directory of both packages, as `scripts/build` makes and checks them."""
    directory = tmp_path_factory.mktemp("dist")
    programs = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [str(ROOT / "scripts/build"), str(directory)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": programs},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


@pytest.fixture(scope="module")
def wheel(built):
    with zipfile.ZipFile(next(built.glob("*.whl"))) as archive:
        yield archive


@pytest.fixture(scope="module")
def metadata(wheel):
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return email.message_from_bytes(wheel.read(name))


def test_the_licence_is_an_expression_without_a_classifier(metadata):
    assert metadata["License-Expression"] == "Apache-2.0"
    assert [each for each in metadata.get_all("Classifier") if each.startswith("License")] == []


def test_classifiers_name_the_versions_of_python_that_are_allowed(metadata):
    named = re.findall(r"Python :: 3\.(\d+)", "\n".join(metadata.get_all("Classifier")))
    lowest, above = re.findall(r"3\.(\d+)", PROJECT["requires-python"])

    assert [int(minor) for minor in named] == list(range(int(lowest), int(above)))


def test_the_description_needs_no_repository(metadata):
    text = metadata.get_payload(decode=True).decode()

    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == []
    assert "pip install quintain &&" in text
    assert "install -e" not in text


def test_the_wheel_holds_all_files_of_the_package_and_nothing_else(wheel):
    tracked = subprocess.run(
        ["git", "ls-files", "quintain"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    names = [name for name in wheel.namelist() if ".dist-info/" not in name]

    assert sorted(names) == sorted(tracked.stdout.split())


def test_the_licences_of_others_are_in_the_wheel(wheel):
    (directory,) = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    licences = {name for name in wheel.namelist() if name.startswith(f"{directory}/licenses/")}

    assert licences == {f"{directory}/licenses/{path}" for path in PROJECT["license-files"]}


def test_the_source_archive_holds_documentation_examples_and_tests(built):
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert {"docs/index.md", "examples/02_own_task.py", "tests/conftest.py", "LICENSE"} <= names
