"""Which part of a trial a process is, as PEDL's trials ask for it."""

from typing import Any, ClassVar


class DistributedContext:
    """Which part of a trial this process is. A trial has one process."""

    rank: ClassVar[int] = 0
    """Number of this process, from 0."""

    size: ClassVar[int] = 1
    """Processes of the trial."""

    local_rank: ClassVar[int] = 0
    """Number of this process on its machine, from 0."""

    local_size: ClassVar[int] = 1
    """Processes of the trial on this machine."""

    cross_rank: ClassVar[int] = 0
    """Number of this machine, from 0."""

    cross_size: ClassVar[int] = 1
    """Machines."""

    def get_rank(self) -> int:
        """Returns the number of this process, from 0."""
        return self.rank

    def get_local_rank(self) -> int:
        """Returns the number of this process on its machine, from 0."""
        return self.local_rank

    def get_size(self) -> int:
        """Returns the number of processes of the trial."""
        return self.size

    def get_num_agents(self) -> int:
        """Returns the number of machines."""
        return self.cross_size

    def gather(self, stuff: Any) -> list[Any]:
        """Returns what all processes gave, to the first one."""
        return [stuff]

    def gather_local(self, stuff: Any) -> list[Any]:
        """Returns what the processes of this machine gave, to the first of them."""
        return [stuff]

    def allgather(self, stuff: Any) -> list[Any]:
        """Returns what all processes gave."""
        return [stuff]

    def allgather_local(self, stuff: Any) -> list[Any]:
        """Returns what the processes of this machine gave."""
        return [stuff]

    def broadcast(self, stuff: Any) -> Any:
        """Returns what the first process gave."""
        return stuff

    def broadcast_local(self, stuff: Any = None) -> Any:
        """Returns what the first process of this machine gave."""
        return stuff
