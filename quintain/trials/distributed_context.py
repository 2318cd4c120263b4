"""Ranks of a trial's processes, and collectives among them, as PEDL's trials use them."""

import hashlib
import hmac
import pickle
from collections.abc import Callable, Sequence
from typing import Any, Final

from quintain import errors

_SEAL_BYTES: Final = hashlib.sha256().digest_size


class DistributedContext:
    """Rank of this process among those of a trial, and collectives among them.

    What gathers and broadcasts is a collective: all processes have to call it at the same point,
    and each waits for the others.

    Attributes:
        rank: Number of this process, from 0.
        size: Processes of the trial.
        local_rank: Number of this process on its machine, from 0.
        local_size: Processes of the trial on this machine.
        cross_rank: Number of this machine, from 0.
        cross_size: Machines.

    Example:
        >>> context = DistributedContext(2, ["a", "a", "b", "b"])
        >>> context.rank, context.local_rank, context.cross_rank, context.cross_size
        (2, 0, 1, 2)
        >>> DistributedContext().allgather("alone")
        ['alone']
    """

    def __init__(self, rank: int = 0, nodes: Sequence[str] = ("",), *, key: bytes = b"") -> None:
        """Takes the machine of each process, and the secret that authenticates their messages."""
        machines = list(dict.fromkeys(nodes))
        self.rank = rank
        self.size = len(nodes)
        self.local_rank = list(nodes[:rank]).count(nodes[rank])
        self.local_size = list(nodes).count(nodes[rank])
        self.cross_rank = machines.index(nodes[rank])
        self.cross_size = len(machines)
        self._nodes = nodes
        self._key = key
        self._num_exchanges = 0
        self._exchange: Callable[[bytes], list[bytes]] | None = None

    def connect(self, exchange: Callable[[bytes], list[bytes]]) -> None:
        """Stores what lets the processes talk to each other.

        Args:
            exchange: Takes the bytes of this process and returns those of all.
        """
        self._exchange = exchange

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

    def allgather(self, stuff: Any) -> list[Any]:
        """Returns what all processes gave, by rank. It has to be what `pickle` can keep.

        Raises:
            StateError: If the processes of the trial are not connected yet.
            ClusterError: If somebody else has sent something in the name of one.
        """
        if self.size == 1:
            return [stuff]
        if self._exchange is None:
            raise errors.StateError(
                "The processes of this trial can't talk to each other before its model is built; "
                "gather and broadcast later."
            )
        self._num_exchanges += 1
        content = pickle.dumps(stuff)
        sealed = self._exchange(self._seal(content, self.rank) + content)
        return [pickle.loads(self._open(part, rank)) for rank, part in enumerate(sealed)]

    def _open(self, sealed: bytes, rank: int) -> bytes:
        """Returns a message: unpickling one of somebody else would run their code."""
        seal, content = sealed[:_SEAL_BYTES], sealed[_SEAL_BYTES:]
        if not hmac.compare_digest(seal, self._seal(content, rank)):
            raise errors.ClusterError(
                f"A message in the name of process {rank} of this trial is not from it, or not "
                "from this exchange. Let no others reach the ports of the machines that train it, "
                "and have all its processes gather and broadcast in the same order."
            )
        return content

    def _seal(self, content: bytes, rank: int) -> bytes:
        place = f"{self._num_exchanges}/{rank}/".encode()
        return hmac.digest(self._key, place + content, "sha256")

    def gather(self, stuff: Any) -> list[Any] | None:
        """Returns what all processes gave to the first one, and None to the others."""
        found = self.allgather(stuff)
        return found if self.rank == 0 else None

    def broadcast(self, stuff: Any = None) -> Any:
        """Returns what the first process gave."""
        return self.allgather(stuff if self.rank == 0 else None)[0]

    def allgather_local(self, stuff: Any) -> list[Any]:
        """Returns what the processes of this machine gave."""
        found = self.allgather(stuff)
        own = self._nodes[self.rank]
        return [each for each, node in zip(found, self._nodes, strict=True) if node == own]

    def gather_local(self, stuff: Any) -> list[Any] | None:
        """Returns what the processes of a machine gave to the first of them; None to the others."""
        found = self.allgather_local(stuff)
        return found if self.local_rank == 0 else None

    def broadcast_local(self, stuff: Any = None) -> Any:
        """Returns what the first process of this machine gave."""
        return self.allgather_local(stuff if self.local_rank == 0 else None)[0]
