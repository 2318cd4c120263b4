"""Idle launcher, for masters that only show what is there."""

from typing import NoReturn

from typing_extensions import override

from quintain.master.processes import launcher
from quintain.records.rows import log, trial


class IdleLauncher(launcher.Launcher):
    """Has no process, and starts none."""

    @override
    def start(self, launch: launcher.LaunchRequest) -> NoReturn:
        raise AssertionError(f"nothing is to be started: {launch}")

    @override
    def adopt(
        self,
        launch_id: str,
        trial_id: int,
        identity: trial.ProcessIdentity | None,
        scratch_dir: str,
        node: str = "",
    ) -> bool:
        return False

    @override
    def kill(self, launch_id: str) -> NoReturn:
        raise AssertionError(f"there is nothing to kill: {launch_id}")

    @override
    def poll(self) -> list[launcher.ProcessExit]:
        return []

    @override
    def read_logs(self) -> list[log.LogRow]:
        return []

    @override
    def close(self, *, kill: bool) -> None:
        pass
