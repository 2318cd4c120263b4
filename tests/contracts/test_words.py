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

# Rooms whose words were not gone through yet.
NOT_YET = frozenset(
    {
        "checkpoints",
        "cli",
        "client",
        "core",
        "files",
        "input",
        "nlp",
        "process",
        "server",
        "serving",
        "web",
    }
)


def test_no_docstring_of_a_module_or_class_opens_with_a_question_word():
    files = [path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] not in NOT_YET]

    found = {
        str(path.relative_to(ROOT)): [match["summary"] for match in QUESTION.finditer(text)]
        for path in files
        if QUESTION.search(text := path.read_text(encoding="utf-8"))
    }

    assert len(files) > 100
    assert not found
