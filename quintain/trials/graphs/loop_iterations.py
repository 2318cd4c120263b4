"""Iteration numbers of loops in a graph, for seeds that differ in each iteration.

A loop of TensorFlow 2 has a counter. One of TensorFlow 1 gets one here, beside its variables, as
TensorFlow adds one to loops whose gradients are taken.
"""

from typing import Any

import tensorflow as tf
from tensorflow.python.framework import func_graph
from tensorflow.python.ops import control_flow_ops, control_flow_v2_func_graphs


class LoopIterations:
    """Finds, or adds, the counters of the loops that are being built, from now on."""

    def __init__(self) -> None:
        self._outer_graph = tf.compat.v1.get_default_graph()
        self._outer_context = self._outer_graph._get_control_flow_context()
        self._counts: dict[Any, tf.Tensor] = {}  # Of loops of TensorFlow 1, by their context.
        self._open: dict[Any, tf.Tensor] = {}  # Those whose body does not exist yet.

    def list_numbers(self) -> list[tf.Tensor]:
        """Returns the numbers of the current iterations, `[]` int32, of the innermost loop first.

        There is none outside of loops.
        """
        graph = tf.compat.v1.get_default_graph()
        numbers = []
        context = graph._get_control_flow_context()
        while context is not None and context is not self._outer_context:
            if isinstance(context, control_flow_ops.WhileContext):
                numbers.append(self._count(context))
            context = context.outer_context
        while isinstance(graph, func_graph.FuncGraph) and graph is not self._outer_graph:
            if isinstance(
                graph,
                control_flow_v2_func_graphs.WhileBodyFuncGraph
                | control_flow_v2_func_graphs.WhileCondFuncGraph,
            ):
                # Its first argument, of which its list of arguments says nothing yet.
                numbers.append(graph.get_operations()[0].outputs[0])
            graph = graph.outer_graph
        return numbers

    def finish(self) -> None:
        """Completes the counters that conditions of loops asked for, and bodies did not."""
        for context in list(self._open):
            self._close(context)

    def _count(self, context: Any) -> tf.Tensor:
        if context._pivot is None:  # The condition is being built.
            if context not in self._open:
                self._open[context] = self._begin(context)
            return self._open[context]
        if context not in self._counts:
            if context not in self._open:
                self._open[context] = self._begin(context)
            self._close(context)
        return self._counts[context]

    def _begin(self, context: Any) -> tf.Tensor:
        """Adds a variable to a loop, which begins at 0, and returns it as the condition sees it."""
        outer = context.outer_context
        with tf.control_dependencies(None):
            if outer is not None:
                outer.Enter()
            zero = tf.constant(0, name="iteration")
            if outer is not None:
                outer.Exit()
            context.Enter()
            context.AddName(zero.name)
            enter = control_flow_ops._Enter(
                zero, context.name, parallel_iterations=context.parallel_iterations
            )
            context.loop_enters.append(enter)
            merged: tf.Tensor = control_flow_ops.merge([enter, enter])[0]
            context.Exit()
        return merged

    def _close(self, context: Any) -> None:
        """Lets the variable of a loop grow by 1 with each iteration."""
        merged = self._open.pop(context)
        with tf.control_dependencies(None):
            context.Enter()
            switched = control_flow_ops.switch(merged, context._pivot)
            grown = control_flow_ops._NextIteration(switched[1] + 1)
            merged.op._update_input(1, grown)
            total = control_flow_ops.exit(switched[0])
            context.loop_exits.append(total)
            context.ExitResult([total])
            context.Exit()
        self._counts[context] = switched[1]
