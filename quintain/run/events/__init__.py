"""Events of a training between its loops: recovery, early stopping, preemption, profiles."""
