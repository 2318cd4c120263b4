"""Integration-test runner: calls a whole program with flags of its own."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from absl import flags
from absl.testing import flagsaver

from quintain.garden.utils.flags import core as flags_core


@flagsaver.flagsaver
def run_synthetic(
    main: Callable[[Any], Any],
    tmp_root: str | None,
    extra_flags: Sequence[str] | None = None,
    synth: bool = True,
    train_epochs: int | None = 1,
    epochs_between_evals: int | None = 1,
) -> None:
    """Calls a program with a new model directory, which is removed afterwards.

    Args:
        main: The program, which takes the flags.
        tmp_root: Directory for the model directory.
        extra_flags: Further flags, such as `["--batch_size=4"]`.
        synth: Whether to give `--use_synthetic_data`.
        train_epochs: Value of the flag of this name; None leaves it out.
        epochs_between_evals: Value of the flag of this name; None leaves it out.
    """
    model_dir = tempfile.mkdtemp(dir=tmp_root)
    arguments = [sys.argv[0], f"--model_dir={model_dir}", *(extra_flags or ())]
    if synth:
        arguments.append("--use_synthetic_data")
    if train_epochs is not None:
        arguments.append(f"--train_epochs={train_epochs}")
    if epochs_between_evals is not None:
        arguments.append(f"--epochs_between_evals={epochs_between_evals}")
    try:
        flags_core.parse_flags(argv=arguments)
        main(flags.FLAGS)
    finally:
        shutil.rmtree(model_dir, ignore_errors=True)
