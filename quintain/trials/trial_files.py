"""Where a trial's files are on the machine of its process.

What a master says names them and gives no paths. A process on the machine of the master finds them
in the master's home.

| variable | content |
|---|---|
| `QUINTAIN_SCRATCH` | directory for files of this process that nobody else needs |
| `QUINTAIN_MASTER_HOME` | home directory of the master, on the master's machine |
"""

import dataclasses
import pathlib
from collections.abc import Mapping

from quintain import errors
from quintain.client import home as home_lib
from quintain.records import checkpoint_manifest, experiment_spec, trial


@dataclasses.dataclass(frozen=True)
class Machine:
    """What a launcher tells a process about its machine."""

    scratch_dir: pathlib.Path
    """Directory for files of the process that nobody else needs."""

    master_home: pathlib.Path
    """Home directory of the master."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Machine":
        """Reads the variables.

        Raises:
            ConfigError: If one is missing.
        """
        for name in ("QUINTAIN_SCRATCH", "QUINTAIN_MASTER_HOME"):
            if not environment.get(name):
                raise errors.ConfigError(f"{name}: missing; a launcher sets it.")
        return cls(
            pathlib.Path(environment["QUINTAIN_SCRATCH"]),
            pathlib.Path(environment["QUINTAIN_MASTER_HOME"]),
        )


class TrialFiles:
    """Finds the files of one trial.

    Args:
        machine: What is known of the machine.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def resolve(self, order: trial.TrialOrder) -> trial.TrialSpec:
        """Returns an order with the places of everything on this machine."""
        home = self._machine.master_home
        model_dir = home / order.code_name
        return trial.TrialSpec(
            **vars(order),
            model_dir=str(model_dir),
            checkpoint_dir=_find_root(order.experiment_config.get("checkpoint_storage"), home),
            scratch_dir=str(self._machine.scratch_dir),
            tensorboard_dir=str(home_lib.find_event_dir(model_dir, order.trial_id)),
        )

    def fetch_checkpoint(self, spec: trial.TrialSpec) -> pathlib.Path:
        """Returns a directory of this machine with the checkpoint that a trial goes on from.

        Raises:
            DamagedCheckpointError: If files are missing or are not what was written.
            CheckpointError: If the storage can't be read, which says nothing about the checkpoint.
        """
        return find_whole(_find_root(spec.checkpoint_storage, self._machine.master_home), spec)


def find_whole(root: str, spec: trial.TrialSpec) -> pathlib.Path:
    """Returns the checkpoint that a trial goes on from, which lies in a directory.

    Raises:
        DamagedCheckpointError: If files are missing or are not what was written.
        CheckpointError: If the directory can't be read.
    """
    assert spec.checkpoint is not None, "asked for the checkpoint of a trial that begins anew"
    directory = pathlib.Path(root, spec.checkpoint)
    damage = checkpoint_manifest.find_damage(directory, spec.checkpoint_files)
    if damage is not None:
        raise errors.DamagedCheckpointError(f"{directory}: it is damaged: {damage}.", damage)
    return directory


def _find_root(storage: object, home: pathlib.Path) -> str:
    default = str(home_lib.Home(home).checkpoints)
    return experiment_spec.find_checkpoint_directory({"checkpoint_storage": storage}, default)
