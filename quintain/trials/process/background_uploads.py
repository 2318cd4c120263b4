"""Checkpoint uploads in the background, while training goes on.

The search acts on what is saved, so it is told of a checkpoint when that is complete. What will be
asked next is often certain before (`Workload.following`): it is done ahead, and its outcome, be it
a result, an error or a wish to stop, is held back until it is asked for. If something else is
asked, the process is to end, and what was done ahead is forgotten, as if it had been killed then.
"""

import collections
import dataclasses
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Final

from quintain import errors
from quintain.records.rows import workload
from quintain.storage import checkpoint_storage, upload_process
from quintain.trials.process import background_calls, trial_checkpoint

Perform = Callable[[workload.Workload], workload.WorkloadResult]
"""Does a workload."""

_Outcome = workload.WorkloadResult | Exception | SystemExit


@dataclasses.dataclass(frozen=True)
class Upload:
    """A checkpoint that is to be uploaded."""

    staged: trial_checkpoint.Staged
    storage: checkpoint_storage.TrialStorage
    following: tuple[workload.Workload, ...]
    """What may be done meanwhile."""


class BackgroundUploads:
    """Uploads in another thread, and holds what was done meanwhile.

    Another process does what might use up the random numbers of this one.

    Args:
        hand_in: Reports a result, and returns what is asked next.
        perform: Does one workload.
    """

    def __init__(
        self, hand_in: Callable[[workload.WorkloadResult], workload.Workload], perform: Perform
    ) -> None:
        self._hand_in = hand_in
        self._perform = perform
        self._process: Final = upload_process.UploadProcess()
        self._held: collections.deque[tuple[workload.Workload, _Outcome]] = collections.deque()

    def close(self) -> None:
        """Ends the process that uploads."""
        self._process.close()

    def take(self, task: workload.Workload) -> workload.WorkloadResult | None:
        """Returns what came out of a workload if it was done ahead, or raises what it raised.

        Raises:
            GoneError: If another one was done ahead.
        """
        if not self._held:
            return None
        done, outcome = self._held.popleft()
        if done != task:
            # The master's database is an older copy, say: another process takes up what it knows.
            raise errors.GoneError(
                f"Workload {task.number} ({task.kind}) is asked for, but this process has gone on "
                f"with workload {done.number} ({done.kind}) while its checkpoint was uploaded."
            )
        if not isinstance(outcome, workload.WorkloadResult):
            raise outcome
        return outcome

    def upload(self, result: workload.WorkloadResult, upload: Upload) -> workload.Workload:
        """Uploads a checkpoint, reports it and works ahead until that is done.

        Returns:
            What is asked next.

        Raises:
            CheckpointError: If it can't be uploaded. What was done meanwhile is forgotten.
            GoneError: If this launch is not wanted any more.
        """
        begun_secs = time.monotonic()
        staged, storage = upload.staged, upload.storage
        request = storage.upload_request
        if request is not None:
            self._process.start()

        def finish() -> workload.Workload:
            if request is None:
                trial_checkpoint.commit(staged, storage)
            else:
                self._process.commit(request, staged.directory, staged.stored.uuid)
            end = result.end_time + time.monotonic() - begun_secs
            return self._hand_in(dataclasses.replace(result, end_time=end))

        uploading = background_calls.start(finish)
        self._work_ahead(() if result.exited_reason else upload.following, uploading)
        return uploading.result()

    def _work_ahead(
        self, tasks: Sequence[workload.Workload], uploading: "futures.Future[workload.Workload]"
    ) -> None:
        for task in tasks:
            if uploading.done():
                return
            try:
                outcome: _Outcome = self._perform(task)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - raised if it is asked for
                outcome = error
            self._held.append((task, outcome))
            if not isinstance(outcome, workload.WorkloadResult) or outcome.exited_reason:
                return
