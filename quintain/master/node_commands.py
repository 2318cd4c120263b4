"""Commands of users on machines."""

from quintain import errors
from quintain.master import shared_state
from quintain.records.rows import node as node_lib
from quintain.store import session as session_lib

_GONE = "It is not there."


class NodeCommands:
    """Commands of users on machines. All methods may be called from several threads."""

    def __init__(self, shared: shared_state.SharedState) -> None:
        self._shared = shared

    def list_nodes(self) -> list[node_lib.NodeStatus]:
        """Returns the machines that are there, or that a user drains, in the order of names."""
        with self._shared.condition:
            table = self._shared.nodes
            nodes = dict(table.nodes)
            for name, known in table.list_known().items():
                if known.is_drained and name not in nodes:
                    nodes[name] = _describe_absent(known)
            own = nodes[node_lib.OWN]
            if not own.slots and len(nodes) > 1 and own.state is node_lib.NodeState.ACTIVE:
                del nodes[node_lib.OWN]
            return [self._describe(nodes[name]) for name in sorted(nodes)]

    def drain(self, name: str) -> node_lib.NodeStatus:
        """Lets the trials of a machine save themselves and go on elsewhere, and starts none there.

        This stays until the machine is activated, also when it leaves and joins again, and when the
        master is restarted.

        Raises:
            NotFoundError: If no machine of this name has ever called.
        """
        return self._set_drained(name, is_drained=True)

    def activate(self, name: str) -> node_lib.NodeStatus:
        """Starts trials on a machine again.

        Raises:
            NotFoundError: If no machine of this name has ever called.
            StateError: If the machine itself says that it leaves, or is not there.
        """
        found = self._set_drained(name, is_drained=False)
        if found.state is not node_lib.NodeState.ACTIVE:
            raise errors.StateError(
                f"Machine {name} is {found.state.value}: {found.reason} No user drains it; trials "
                "start on it once it is there and does not leave."
            )
        return found

    def _set_drained(self, title: str, *, is_drained: bool) -> node_lib.NodeStatus:
        shared = self._shared
        with shared.condition:
            table = shared.nodes
            name = node_lib.OWN if title == node_lib.OWN_TITLE else title
            known = {node_lib.title_of(each) for each in (*table.nodes, *table.list_known())}
            if title not in known:
                raise errors.NotFoundError(
                    f"machine {errors.show(title)}: there is none.{errors.suggest(title, known)} "
                    f"Known: {', '.join(sorted(known)[:20])}."
                )
            former = table.list_known().get(name)
            record = table.set_drained(name, is_drained=is_drained)

            def write(session: session_lib.Session) -> None:
                session.save_node(record)

            try:
                shared.write(write)
            except errors.StoreError:
                table.set_drained(name, is_drained=former is not None and former.is_drained)
                raise
            shared.notify()
            return self._describe(table.nodes.get(name) or _describe_absent(record))

    def _describe(self, node: node_lib.Node) -> node_lib.NodeStatus:
        table = self._shared.nodes
        return node_lib.NodeStatus(
            name=node_lib.title_of(node.name),
            state=node.state,
            reason=node.reason,
            labels=dict(node.labels),
            slots=tuple(slot.id for slot in node.slots),
            num_held=sum(slot.id in table.holders for slot in node.slots),
            trials=tuple(sorted(table.trials.get(node.name, ()))),
        )


def _describe_absent(known: node_lib.KnownNode) -> node_lib.Node:
    return node_lib.Node(known.name, (), known.labels, node_lib.NodeState.LOST, _GONE)
