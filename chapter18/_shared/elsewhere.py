"""Call a function in a fresh process that has as many simulated devices as it needs."""

import os
import pickle
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from chapter18._shared.children import Child


def call(function, *, devices, timeout, environment=None):
    """Return `function()`, called in a child process with `devices` simulated CPU devices.

    The function and what it refers to travel by cloudpickle: a function or class made in a
    notebook goes along by value, one of an importable module by name. What they hold must be
    data, not open files, threads or arrays on a device. Its result travels back by pickle, and so
    does its error. The child sees no accelerator, so it disturbs none; `environment` adds to its
    environment variables.

    Raises TypeError when something cannot travel, TimeoutError when `timeout` seconds are not
    enough (the child is killed), and RuntimeError, with the end of its stderr, when the child
    dies.
    """
    with tempfile.TemporaryDirectory(prefix="chapter18-") as folder:
        request, reply = Path(folder, "request"), Path(folder, "reply")
        request.write_bytes(pickle.dumps((sys.path, _packed(function))))
        command = [sys.executable, "-m", "chapter18._shared.elsewhere", str(request), str(reply)]
        errors = Path(folder, "errors")
        code = _run(command, _environment(devices) | (environment or {}), timeout, errors)
        if not reply.exists():
            last_words = errors.read_text("utf-8", "replace")[-2000:]
            raise RuntimeError(
                "The child process must give an answer. "
                f"Received: none, exit code {code}, and this at the end of its stderr: "
                f"{last_words.strip() or 'nothing'}\n"
                "Mend what it says there; free memory if the system killed it without a word."
            )
        result, error = pickle.loads(reply.read_bytes())
    if error is not None:
        raise error
    return result


def _packed(function):
    import cloudpickle

    try:
        return cloudpickle.dumps(function)
    except Exception as error:
        raise TypeError(
            "What is planned in a child process must be able to travel there by cloudpickle. "
            f"Received: {error}. Make layers, files and arrays inside build(), not around it."
        ) from error


def _environment(devices):
    flags = re.sub(r"--xla_force_host_platform_device_count=\d+", "", os.getenv("XLA_FLAGS", ""))
    return os.environ | {
        "KERAS_BACKEND": "jax",
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": str(devices),
        "XLA_FLAGS": flags,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }


def _run(command, environment, timeout, errors):
    """Return the exit code of the command, its stderr in `errors`; no process of it survives."""
    null = subprocess.DEVNULL
    with (
        errors.open("wb") as stderr,
        Child(command, env=environment, stdin=null, stdout=null, stderr=stderr) as child,
    ):
        try:
            return child.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError(
                "The child process must finish in time. "
                f"Received: nothing after {timeout} seconds. Give it a longer timeout=, "
                "or plan with estimate=False, which compiles nothing."
            ) from None


def _answer(request, reply):
    path, function = pickle.loads(Path(request).read_bytes())
    sys.path[:] = path
    try:
        answer = pickle.loads(function)(), None
    except Exception as error:
        answer = None, _portable(error)
    part = Path(reply + ".part")
    part.write_bytes(pickle.dumps(answer))
    part.replace(reply)


def _portable(error):
    """The error itself if it survives the way back, else its text."""
    try:
        return pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    _answer(*sys.argv[1:])
