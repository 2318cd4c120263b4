"""Native kernels for operations that TensorFlow does in many passes over memory.

They are C++, in `csrc`, compiled once for each machine when they are first needed, and used in
training steps on CPUs where `runtime.kernels` allows it. Everything works without them: each has
operations of TensorFlow that it replaces, with the same results within rounding.
"""
