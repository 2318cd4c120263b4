import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "import quintain",
        "import quintain.config",
        "import quintain.cli.main",
        "from quintain.cli import main; main.run(['--help'])",
    ],
)
def test_nothing_heavy_is_imported_before_it_is_used(statement):
    check = (
        "import sys\n"
        "heavy = {'tensorflow', 'numpy', 'pydantic', 'keras', 'rich'} & set(sys.modules)\n"
        "sys.exit(f'{heavy} imported' if heavy else 0)"
    )

    result = subprocess.run(
        [sys.executable, "-c", f"{statement}\n{check}"], capture_output=True, text=True, check=False
    )

    assert result.returncode == 0, result.stderr


def test_an_unknown_package_is_an_attribute_error():
    import quintain  # noqa: PLC0415 - the subject of the test

    with pytest.raises(AttributeError, match="no attribute 'cor'"):
        _ = quintain.cor
