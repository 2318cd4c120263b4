"""Runs Python programs in copies of this process, which has imported what takes seconds.

Standard input has a program on each line, as JSON: its `arguments`, like those of `python` (a
path, or `-c` and code), its directory `cwd`, and the files `stdout` and `stderr` to write. The
answers are exit codes. A copy is a process of its own; TensorFlow has started nothing in this one.
"""

import gc
import json
import os
import sys
import types

import quintain.registered_experiments  # noqa: F401 - for the time that it takes


def serve():
    """Answers for programs until there are no more; in a copy, returns the program that it is."""
    for line in sys.stdin:
        program = json.loads(line)
        pid = os.fork()
        if pid == 0:
            return program
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    return None


def become(program):
    """Makes this copy what a fresh interpreter would be, and returns the code to run in it."""
    for number, name in enumerate((os.devnull, program["stdout"], program["stderr"])):
        file = os.open(name, os.O_RDWR)
        os.dup2(file, number)
        os.close(file)
    os.chdir(program["cwd"])
    first, *others = program["arguments"]
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    if first == "-c":
        code, *others = others
        sys.argv, sys.path[0], name = ["-c", *others], "", "<string>"
    else:
        sys.argv, sys.path[0], name = [first, *others], os.path.dirname(first), first
        module.__file__ = name
        with open(name, encoding="utf-8") as file:
            code = file.read()
    exec(compile(code, name, "exec"), module.__dict__)


gc.collect()
gc.freeze()  # The copies share the pages of what is there now, and never look for garbage among it.
program = serve()
if program is not None:
    become(program)
