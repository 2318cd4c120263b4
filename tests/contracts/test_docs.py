"""The documentation is true: links lead somewhere, Python code runs, named files exist."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "benchmarks/README.md"])
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
SOURCE = re.compile(r"`((?:quintain|tests|examples|benchmarks|scripts)/[\w./]+\.\w+)`")
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_named_files_exist(page):
    text = page.read_text()
    links = [target for target in LINK.findall(text) if "://" not in target]

    missing = [target for target in links if not (page.parent / target).exists()]
    missing += [path for path in SOURCE.findall(text) if not (ROOT / path).exists()]

    assert missing == []


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if PYTHON.search(page.read_text())],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_python_code_runs(page, tmp_path, run_python):
    code = "\n".join(PYTHON.findall(page.read_text()))

    result = run_python("-c", code, cwd=tmp_path)

    assert result.returncode == 0, result.stderr
