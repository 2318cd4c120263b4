"""Programs that train one task read only what that takes."""

import json
import subprocess
import sys

import pytest

MAX_FILES = 140
MAX_LINES = 22_000

_PROGRAM = """
import json, pathlib, sys
import quintain.core.train_lib
root = str(pathlib.Path(quintain.__file__).parent)
files = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
texts = [pathlib.Path(file).read_text("utf-8") for file in files if file.startswith(root)]
print(json.dumps([len(texts), sum(text.count("\\\\n") for text in texts)]))
"""


@pytest.mark.slow
def test_train_lib_reads_few_files_and_lines():
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True
    )

    num_files, num_lines = json.loads(done.stdout)

    assert num_files <= MAX_FILES
    assert num_lines <= MAX_LINES
