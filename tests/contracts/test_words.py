"""First lines of docstrings: a noun that readers can search for, not an embedded question."""

import pathlib
import re

import quintain

ROOT = pathlib.Path(quintain.__file__).parent

QUESTION = re.compile(
    r'(?:\A|^ *class \w+(?:\([^)]*\))?:\n +)r?"""(?P<summary>'
    r"(?:what|which|who|whom|whose|whether|how|where|when|why|that|by|whatever|whoever)\b.*)",
    re.IGNORECASE | re.MULTILINE,
)


def test_no_docstring_of_a_module_or_class_opens_with_a_question_word():
    files = {path.relative_to(ROOT).as_posix(): path for path in ROOT.rglob("*.py")}

    found = {
        name: [match["summary"] for match in QUESTION.finditer(text)]
        for name, path in files.items()
        if QUESTION.search(text := path.read_text(encoding="utf-8"))
    }

    assert len(files) > 100
    assert not found
