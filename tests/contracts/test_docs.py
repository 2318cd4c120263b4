"""The documentation is true and small: links, named files and code work, and sizes have bounds."""

import json
import pathlib
import re
import subprocess

import markdown
import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "benchmarks/README.md"])
DECISIONS = sorted((ROOT / "docs/decisions").glob("*.md"))
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
SOURCE = re.compile(r"`((?:quintain|tests|examples|benchmarks|scripts)/[\w./]+\.\w+)`")
ANCHOR = re.compile(r"\[[^\]]*\]\(([^)#\s]*)#([^)\s]+)\)")
GENERATED = re.compile(r"^This page is (?:generated|written) (?:from|by) `", re.MULTILINE)
# Not those of 404.html, which begin with a slash: a server may show it at any address.
HREF = re.compile(r'<a[^>]* href="?(?!/)([^"#:> ]*)(?:#([^"> ]+))?["> ]')
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_named_files_exist(page):
    text = page.read_text()
    links = [target for target in LINK.findall(text) if "://" not in target]

    missing = [target for target in links if not (page.parent / target).exists()]
    missing += [path for path in SOURCE.findall(text) if not (ROOT / path).exists()]

    assert missing == []


def test_pages_that_the_code_names_exist():
    named = {
        path
        for source in (ROOT / "quintain").rglob("*.py")
        for path in re.findall(r"\bdocs/[\w/-]+\.md", source.read_text())
    }

    assert named != set()
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_every_page_is_reached_from_the_index():
    reached, waiting = set(), [ROOT / "docs/index.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page not in reached and page.is_relative_to(ROOT / "docs"):
            reached.add(page)
            links = LINK.findall(page.read_text())
            waiting += [page.parent / link for link in links if link.endswith(".md")]

    assert sorted({*(ROOT / "docs").rglob("*.md")} - reached) == []


def test_anchors_of_links_exist():
    missing = []
    for page in PAGES:
        for target, anchor in ANCHOR.findall(page.read_text()):
            linked = (page.parent / target).resolve() if target else page
            if "://" not in target and anchor not in list_anchors(linked.read_text()):
                missing.append(f"{page.name}: {target}#{anchor}")

    assert missing == []


def list_anchors(text):
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.slow
@pytest.mark.e2e
def test_links_of_the_site_lead_somewhere(tmp_path):
    former = tmp_path / "0.0" / "index.html"
    former.parent.mkdir()
    former.touch()
    subprocess.run([ROOT / "scripts/docs", "release", tmp_path], check=True)
    versions = json.loads((tmp_path / "versions.json").read_text())
    site = tmp_path / versions[0]["version"]
    pages = {page: page.read_text() for page in site.rglob("*.html")}

    links = [
        (page, (page.parent / target).resolve() if target else page, anchor)
        for page, text in pages.items()
        for target, anchor in HREF.findall(text)
    ]
    missing = [
        f"{page.name}: {target.name}#{anchor}"
        for page, target, anchor in links
        if not target.is_file() or (anchor and f'id="{anchor}"' not in pages[target])
    ]

    assert 'id="quintain.run.fitting.fit.fit"' in pages[site / "reference/python.html"]
    assert [one["version"] for one in versions[1:]] == ["0.0"]
    assert missing == []


def test_the_documentation_has_at_most_37901_words():
    pages = (ROOT / "docs").rglob("*.md")
    counted = {
        page: len(page.read_text().split())
        for page in pages
        if page.parent.name != "decisions" and not GENERATED.search(page.read_text())
    }

    assert sum(counted.values()) <= 37_901, counted


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        ("[figures](../../benchmarks/README.md#a)", "figures (<code>benchmarks/README.md</code>)"),
        ("[examples/slurm](../../examples/slurm/README.md)", "examples/slurm"),
        ("[all](../reference/README.md)", '<a href="../reference/README.md">all</a>'),
    ],
)
def test_links_that_leave_the_site_are_text(link, shown):
    assert markdown.markdown(link, extensions=["site_markdown"]) == f"<p>{shown}</p>"


def test_the_readme_has_at_most_900_words():
    assert len((ROOT / "README.md").read_text().split()) <= 900


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs/decisions").glob("*.md")), ids=lambda p: p.stem
)
def test_a_decision_has_at_most_600_words(page):
    assert len(page.read_text().split()) <= 600


def test_the_changelog_has_at_most_120_bullets_of_one_line():
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    bullets = [line for line in lines if line.startswith("- ")]

    assert len(bullets) <= 120
    assert [line for line in bullets if len(line) > 140] == []
    assert [line for line in lines if line.startswith("  ")] == []


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
