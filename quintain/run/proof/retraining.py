"""Steps of a run, trained again from a checkpoint and compared with what the run had."""

import shutil
import tempfile
from collections.abc import Sequence

from quintain import errors
from quintain.checkpoints import checkpoints, receipts
from quintain.config import run_header, yaml_io
from quintain.files import file_io, file_paths, whole_files
from quintain.run import experiment_parser, run_files, run_options, train_lib
from quintain.run.proof import comparison


def retrain(
    run: str, start: int, stop: int, assignments: Sequence[str] = ()
) -> comparison.Comparison:
    """Trains steps of a run again, in a directory that is deleted, and compares the results.

    Args:
        run: Directory of the run, which stays as it is.
        start: Step of a checkpoint that is there, with its receipt.
        stop: Later step, of which there is a receipt.
        assignments: Settings to train with instead, as `runtime.kernels=tensorflow`.

    Raises:
        CheckpointError: If there are no such receipts, or the checkpoint is not as it was written.
        QuintainError: If the training can't go on, as without its code or its data.
    """
    path = check(run, start, stop)
    receipt = receipts.read(path + receipts.SUFFIX)
    header = yaml_io.load_file(run_files.params_path(run))
    kept = {run_header.DIRECTORIES_KEY: header.get(run_header.DIRECTORIES_KEY) or {}}
    with tempfile.TemporaryDirectory(prefix="quintain-verify-") as scratch:
        _copy_run(run, path, scratch)
        settings = yaml_io.dump({**receipt.facts["config"], **kept})
        whole_files.write(run_files.params_path(scratch), settings)
        train(scratch, [*assignments, f"trainer.train_steps={stop}"])
        return comparison.compare(run, scratch, start=start)


def check(run: str, start: int, stop: int) -> str:
    """Returns the prefix of the checkpoint at `start`.

    Raises:
        CheckpointError: If it is not there or changed, or there is no receipt of `stop`.
    """
    heads = comparison.read_heads(run)
    if start >= stop or stop not in heads:
        later = [str(step) for step in sorted(heads) if step > start]
        raise errors.CheckpointError(
            f"--to: got {stop}, of which {run} has no receipt after step {start}. Give one of "
            f"{errors.enumerate_some(later) or 'another run'}."
        )
    path = file_paths.join(run, f"ckpt-{start}")
    found = checkpoints.list_checkpoints(run)
    if path not in found:
        names = [one.rpartition("-")[2] for one in found]
        raise errors.CheckpointError(
            f"--from: got {start}, but {run} has no checkpoint of this step. Give one of "
            f"{errors.enumerate_some(names)}."
        )
    leaves, damaged = receipts.hash_values(path)
    if damaged or leaves != receipts.read(path + receipts.SUFFIX).leaves:
        raise errors.CheckpointError(
            f"{path}: is not as it was written, so nothing can be trained from it. `quintain "
            "verify` without --from says what was changed."
        )
    return path


def train(directory: str, assignments: Sequence[str]) -> None:
    """Trains the run in a directory as its settings say, with changes."""
    parsed = experiment_parser.parse(
        experiment_parser.ParseConfigOptions(model_dir=directory, set=tuple(assignments))
    )
    run_files.serialize_config(  # What differs is wanted: without a warning.
        parsed.params, directory, experiment=parsed.name, imports=parsed.imports, is_bound=False
    )
    train_lib.train_from_config(
        parsed.params,
        "train",
        directory,
        experiment=parsed.name,
        imports=parsed.imports,
        allow_config_change=True,
        options=run_options.RunOptions(save_summary=False),
    )


def _copy_run(run: str, path: str, target: str) -> None:
    """Copies one checkpoint of a run, and the files that it trains with besides."""
    copied = [f"{path}.index", path + receipts.SUFFIX, *checkpoints.list_data_files(path)]
    names = {run_files.PARAMS_FILE, *run_files.WRITTEN_FILES}
    for name in file_io.listdir(run):
        file = file_paths.join(run, name)
        is_own = name.startswith(("ckpt-", ".", "events.")) or name == "checkpoint" or name in names
        if file_io.isfile(file) and not is_own:
            copied.append(file)
    for file in copied:
        target_file = file_paths.join(target, file_paths.basename(file))
        with file_io.open(file, "rb") as source, file_io.open(target_file, "wb") as copy:
            shutil.copyfileobj(source, copy)
