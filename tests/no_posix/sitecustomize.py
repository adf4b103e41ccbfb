"""Let Python start as if it were on Windows: without what only POSIX has.

    PYTHONPATH=$PWD/tests/no_posix make unit smoke

Python imports this module by itself at every start, so children and kernels are under it as well.
Code of the standard library and of installed packages still finds the names: on Windows it goes
other ways, which this machine does not have. Everybody else, cells and `-c` code included, meets
an AttributeError or a ModuleNotFoundError. What is open can be neither replaced nor
removed by them.
"""

import builtins
import contextlib
import multiprocessing
import multiprocessing.context
import os
import signal
import subprocess
import sys
import sysconfig

MISSING = {
    os: (
        *("fork", "forkpty", "posix_spawn", "register_at_fork", "setsid", "setpgid", "getpgid"),
        *("getpgrp", "getsid", "killpg", "nice", "wait", "wait3", "wait4", "waitid", "WNOHANG"),
        *("WIFSIGNALED", "WTERMSIG", "WIFEXITED", "sched_getaffinity", "sched_setaffinity"),
        *("uname", "getuid", "geteuid", "getgid", "getegid", "getloadavg", "statvfs", "chown"),
        *("mkfifo", "pread", "pwrite", "O_DIRECTORY", "O_NOFOLLOW", "sysconf", "ctermid"),
        *("chroot", "sync", "fdatasync", "lockf", "sendfile", "openpty", "getpriority"),
    ),
    signal: (
        *("SIGKILL", "SIGSTOP", "SIGCONT", "SIGTSTP", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGCHLD"),
        *(
            "SIGUSR1",
            "SIGUSR2",
            "SIGPIPE",
            "alarm",
            "setitimer",
            "pause",
            "sigwait",
            "siginterrupt",
        ),
        *("pthread_kill", "pthread_sigmask"),
    ),
}
MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix", "syslog")

_PACKAGES = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
_LIBRARY = tuple(
    os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib")
)


def _of_a_package(frame):
    return any(name in frame.f_code.co_filename for name in _PACKAGES)


def _installed(frame):
    """Whether the code of the frame belongs to Python or to an installed package."""
    file = frame.f_code.co_filename
    python = file.startswith("<frozen") or os.path.realpath(file).startswith(_LIBRARY)
    return python or _of_a_package(frame)


def _hide(module, names):
    hidden = {name: vars(module).pop(name) for name in names if name in vars(module)}

    def __getattr__(name):
        if name in hidden and _installed(sys._getframe(1)):
            return hidden[name]
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    module.__getattr__ = __getattr__


def _import(name, globals=None, locals=None, fromlist=(), level=0, *, real=builtins.__import__):
    if level == 0 and name in MODULES and not _installed(sys._getframe(1)):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return real(name, globals, locals, fromlist, level)


def _start(self, *args, real=subprocess.Popen.__init__, **options):
    # Windows ignores the first and refuses the second.
    if not _installed(sys._getframe(1)):
        options.pop("start_new_session", None)
        if options.get("preexec_fn"):
            raise ValueError("preexec_fn is not supported on Windows platforms")
    real(self, *args, **options)


def _only_spawn():
    context = multiprocessing.context
    for method in ("fork", "forkserver"):
        context._concrete_contexts.pop(method)
    multiprocessing.get_all_start_methods = lambda: ["spawn"]
    context._default_context._default_context = context._concrete_contexts["spawn"]


def _refuse_open_files(event, arguments):
    """On Windows a file that is open can be neither renamed, nor replaced, nor removed."""
    if event == "os.remove":
        paths = [arguments]
    elif event == "os.rename":
        source, target, source_folder, target_folder = arguments
        paths = [(source, source_folder), (target, target_folder)]
    else:
        return
    if _asked_by_a_package():
        return
    held = set(_open_files())
    for path, folder in paths:
        above = os.readlink(f"/proc/self/fd/{folder}") if folder >= 0 else os.getcwd()
        if os.path.join(os.path.realpath(above), os.fsdecode(path)) in held:
            raise PermissionError(13, "The process cannot access the file: it is open", path)


def _asked_by_a_package():
    frame = sys._getframe(2)
    while frame and _installed(frame):
        if _of_a_package(frame):
            return True
        frame = frame.f_back
    return False


def _open_files():
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one that lists them
            yield os.readlink(f"/proc/self/fd/{number}")


for _module, _names in MISSING.items():
    _hide(_module, _names)
builtins.__import__ = _import
subprocess.Popen.__init__ = _start
_only_spawn()
if os.path.isdir("/proc/self/fd"):
    sys.addaudithook(_refuse_open_files)
