"""Markdown of the documentation's site: names of Python, and links that leave it.

`mkdocs.yml` names this module, a Markdown extension.
"""

import pathlib
import re

import markdown
from markdown import preprocessors

ROOT = pathlib.Path(__file__).parents[1]
# The site has `docs`. Readers of anything else have the repository, or its source archive.
LEAVING = re.compile(r"\[([^\]]*)\]\((?:\.\./)+(?!\.)([^)#]*)[^)]*\)")
NAMES = "<!-- public names -->"


class _Pages(preprocessors.Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        text = LEAVING.sub(_leave, "\n".join(lines))
        if NAMES in text:
            text = text.replace(NAMES, _write_names())
        return text.split("\n")


def _leave(link: re.Match[str]) -> str:
    text, path = link.groups()
    if (ROOT / "docs" / path).exists():
        return link[0]
    return text if text in path else f"{text} (`{path}`)"


def _write_names() -> str:
    # Other pages don't wait for TensorFlow.
    import public_names  # noqa: PLC0415

    blocks, written = [], set()
    for package in public_names.PACKAGES:
        blocks.append(f"## {package}")
        for name, value in public_names.list_offered(package):
            path = f"{value.__module__}.{value.__qualname__}"
            if path not in written:
                options = f"{{heading: {package}.{name}, toc_label: {name}}}"
                blocks.append(f"::: {path}\n    options: {options}")
            written.add(path)
    return "\n\n".join(blocks)


class _Extension(markdown.Extension):
    def extendMarkdown(self, md: markdown.Markdown) -> None:  # noqa: N802
        md.preprocessors.register(_Pages(md), "pages", priority=100)


def makeExtension(**options: object) -> markdown.Extension:  # noqa: N802
    """Returns the extension: Python-Markdown calls it by this name."""
    return _Extension(**options)
