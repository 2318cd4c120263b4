"""What a master holds of each of ten thousand trials and slots takes little."""

import pytest

from quintain.cluster.agents import agent_protocol, agent_state
from quintain.master import entries
from quintain.master.machine import trial_machine, trial_states
from quintain.master.processes import launcher
from quintain.records.rows import launch, node, slot, trial, workload
from quintain.search import base_search


@pytest.mark.parametrize(
    "kind",
    [
        *(
            slot.Slot,
            node.Node,
            node.KnownNode,
            launch.Launch,
            launch.Member,
            trial.ProcessIdentity,
        ),
        *(workload.Workload, entries.LiveLaunch, trial_machine.TrialMachine, trial_states.Saved),
        *(base_search.Create, base_search.Train, base_search.Validate, base_search.Close),
        *(agent_state.RemoteLaunch, agent_protocol.Hello, launcher.LaunchRequest),
    ],
)
def test_records_of_which_there_are_thousands_have_no_table_each(kind):
    # A table of its attributes takes 200 bytes and more, beside the record itself.
    assert not hasattr(kind.__new__(kind), "__dict__")
