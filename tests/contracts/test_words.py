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

# Rooms, and files, whose words were not gone through yet.
NOT_YET = (
    "checkpoints/",
    "cli/",
    "client/",
    "config/binding.py",
    "core/",
    "files/",
    "input/",
    "kernels/second_derivatives.py",
    "master/continuation.py",
    "master/eta.py",
    "master/machine/following.py",
    "master/placing/start_pace.py",
    "nlp/",
    "process/",
    "run/run_kinds.py",
    "server/",
    "serving/",
    "trials/keras/callback_hooks.py",
    "trials/keras/keras_progress.py",
    "web/",
)


def test_no_docstring_of_a_module_or_class_opens_with_a_question_word():
    files = {path.relative_to(ROOT).as_posix(): path for path in ROOT.rglob("*.py")}

    found = {
        name: [match["summary"] for match in QUESTION.finditer(text)]
        for name, path in files.items()
        if not name.startswith(NOT_YET)
        and QUESTION.search(text := path.read_text(encoding="utf-8"))
    }

    assert len(files) > 100
    assert not found
