"""A trial process without TensorFlow, which does what `QUINTAIN_TINY` in its environment says."""

import gc
import os
import pathlib
import signal
import subprocess
import sys
import time


def main():
    """Does it, and returns the exit code."""
    what = os.environ.get("QUINTAIN_TINY", "")
    print("what", what)
    if what == "write":
        os.write(1, b"from C, ")
        os.write(1, b"in two pieces\n")
        print("warning", file=sys.stderr)
        for percent in range(0, 101, 10):
            print(f"\r{percent} %", end="", flush=True)
        print()
        os.write(1, b"\xff\n\nno end of line")
        return 3
    if what == "environment":
        print("\n".join(f"{name}={value}" for name, value in sorted(os.environ.items())))
    if what == "wait":
        wait()
    if what == "ignore SIGTERM":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        wait()
    if what == "child":
        child = subprocess.Popen(["sleep", "100"])
        print("child", child.pid, flush=True)
        if os.environ.get("CHILD_OUTLIVES"):
            return 0
        wait()
    if what == "raise":
        raise ValueError("broken on purpose")
    if what == "exit":
        sys.exit("told so")
    if what == "memory":
        raise MemoryError
    if what == "abort":
        os.abort()
    if what == "modules":
        print("preloaded", "colorsys" in sys.modules, __name__, os.getppid())
    if what in SHOWN:
        SHOWN[what]()
    return 0


def wait():
    """Waits until it is killed, at most half a minute."""
    print("ready", flush=True)
    time.sleep(30.0)


def show_descriptors():
    """Tells which process started this one, and how many sockets this one has."""
    kinds = [os.path.realpath(each) for each in pathlib.Path("/proc/self/fd").iterdir()]
    print("sockets", sum("socket:" in kind for kind in kinds), "parent", os.getppid())


def show_garbage():
    """Tells whether garbage is looked for, and whether among what a module has."""
    names = vars(sys.modules["colorsys"])
    print("looked for", gc.isenabled(), "among", any(it is names for it in gc.get_objects()))


def show_many():
    """Writes many lines."""
    print("\n".join(f"line {number}" for number in range(300)))


def show_early():
    """Tells what Python has read when it started."""
    print(time.tzname)
    print(time.strftime("%H:%M", time.localtime(0)), sys.flags.hash_randomization)


SHOWN = {
    "descriptors": show_descriptors,
    "garbage": show_garbage,
    "many": show_many,
    "early": show_early,
}

if __name__ == "__main__":
    sys.exit(main())
