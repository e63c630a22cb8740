"""Stops a job inside its writing, so that a test can kill it there.

Python imports this where a test puts the folder on PYTHONPATH.  In a script whose name ends in
STOP_SCRIPT it counts steps of STOP_STEP, "hdf5" (a call of h5py that writes) or "rename" (a file
about to get its final name), and at step STOP_AT it touches STOP_MARK and waits for the end.  In a
warm interpreter, from which jobs are forked, it counts in those of that script.
"""

import functools
import importlib.util
import os
import sys
import time

left = int(os.environ.get("STOP_AT", "0"))


def step():
    global left
    if not sys.argv[0].endswith(os.environ["STOP_SCRIPT"]):
        return
    left -= 1
    if left == 0:
        with open(os.environ["STOP_MARK"], "w"):
            pass
        time.sleep(600)


def before_rename(event, arguments):
    if event == "os.rename" and str(arguments[1]).endswith((".h5", ".csv", ".pdf")):
        step()


class AfterH5py:
    """An import hook that wraps what writes in h5py once h5py is there."""

    def find_spec(self, name, path=None, target=None):
        if name != "h5py":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("h5py")
        run = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (run(module), wrap(module))
        return spec


def wrap(h5py):
    for kind, name in (
        (h5py.Group, "create_dataset"),
        (h5py.Dataset, "__setitem__"),
        (h5py.File, "flush"),
        (h5py.AttributeManager, "__setitem__"),
    ):
        setattr(kind, name, counted(getattr(kind, name)))


def counted(call):
    @functools.wraps(call)
    def wrapped(*arguments, **options):
        result = call(*arguments, **options)
        step()
        return result

    return wrapped


script = sys.orig_argv[1] if len(sys.orig_argv) > 1 else ""
if left and (script.endswith(os.environ["STOP_SCRIPT"]) or "wordsens.warm" in sys.orig_argv):
    if os.environ["STOP_STEP"] == "rename":
        sys.addaudithook(before_rename)
    else:
        sys.meta_path.insert(0, AfterH5py())
