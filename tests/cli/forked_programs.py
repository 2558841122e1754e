"""Programs as forks of one process that has loaded PyTorch and fairseq, which otherwise takes seconds each.

``folder`` has ``python`` and fairseq's programs, to be put first in the path. They hand arguments, environment, folder and
streams to the server, which is this file as a script, and end as the fork of it does that was made for them. What is run gets
the same ``python`` as its ``sys.executable``, so the programs that it starts are forks as well.
"""

import contextlib
import functools
import importlib
import json
import logging
import multiprocessing
import multiprocessing.connection
import os
import resource
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("train", "hydra-train", "eval-lm", "validate", "generate", "interactive", "preprocess")  # the first sets up the log
PROGRAMS = {f"fairseq-{name}": f"fairseq_cli.{name.replace('-', '_')}" for name in NAMES}
# the optimizers take torch._dynamo at their first step; not the package: it is imported as users do
LIBRARIES = ("torch._dynamo", "numba", "nltk.corpus", "matplotlib.pyplot")
PRELOADED = (*PROGRAMS.values(), *LIBRARIES)
SERVERS: list = []  # their standard inputs stay open as long as this process lives
CLIENT = """#!{python} -IS
import json, os, resource, socket, sys
name = os.path.basename(sys.argv[0])
if name == "python" and sys.argv[1] not in ("-m", "-c") and not sys.argv[1].endswith(".py"):
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
limits = [(kind, resource.getrlimit(kind)) for kind in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE)]
call = json.dumps([[name, *sys.argv[1:]], os.getcwd(), dict(os.environ), limits]).encode()
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [len(call).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(call)
    code = server.recv(1)
sys.exit(code[0] if code else "the server of programs has gone")
"""


@functools.cache
def folder(*loaded: str) -> Path:
    """Start a server, which ends with this process; return where the programs are.

    Args:
        loaded: further modules that it loads, so that forks have them
    """
    where = Path(tempfile.mkdtemp(prefix="programs-"))
    address = str(where / "server")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    for name in ("python", *PROGRAMS):
        (where / name).write_text(CLIENT.format(python=sys.executable, address=address))
        (where / name).chmod(0o755)
    environment, number = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}, listener.fileno()
    command = [sys.executable, __file__, str(where), str(number), *loaded]
    SERVERS.append(subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, pass_fds=[number]))
    return where


def serve(where: str, listener: socket.socket, loaded) -> None:
    """Fork for every call until standard input ends."""
    for module in (*PRELOADED, *loaded):
        importlib.import_module(module)
    _rehearse()
    sys.pycache_prefix, sys.dont_write_bytecode = str(Path(where, "bytecode")), False  # of the package, once for all forks
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _attend(connection)
            os._exit(0)
        connection.close()
    shutil.rmtree(where)


def _rehearse() -> None:
    """Do what every program begins with, which fills tables that forks inherit: numba's of functions, Hydra's of its grammar."""
    from fairseq import options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from numba.core.registry import cpu_target

    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()
    typed = ["data", "--task", "language_modeling", "--arch", "transformer_lm", "--batch-size", "2"]
    convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), typed))


def _attend(connection: socket.socket) -> None:
    length, streams, _, _ = socket.recv_fds(connection, 8, 3)
    rest, call = int.from_bytes(length, "big"), b""
    while len(call) < rest:
        call += connection.recv(rest - len(call))
    process = multiprocessing.get_context("fork").Process(target=_become, args=(*json.loads(call), streams))
    process.start()
    if process.sentinel not in multiprocessing.connection.wait([process.sentinel, connection]):
        process.kill()  # as the one that called was
    process.join()
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(bytes([process.exitcode % 256]))


def _become(command, directory, variables, limits, streams) -> None:
    for kind, limit in limits:
        resource.setrlimit(kind, limit)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    sys.stdin = open(0, closefd=False)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(directory)
    multiprocessing.set_start_method("fork", force=True)  # of its own workers, as where a shell has started it
    path = [part for part in variables.get("PYTHONPATH", "").split(":") if part]
    _forget({file.stem for part in path for file in Path(part).glob("*.py")})
    sys.executable = str(Path(sys.argv[1], "python"))
    name, *arguments = command
    if name != "python":
        sys.path[:0], sys.argv = path, command
        sys.exit(importlib.import_module(PROGRAMS[name]).cli_main())
    logging.root.handlers.clear()  # those of fairseq's programs, which are not what is run
    logging.root.setLevel(logging.WARNING)
    sys.modules.pop(PROGRAMS["fairseq-train"], None)  # what imports it finds its log set up
    if arguments[0] == "-m":
        sys.path[:0], sys.argv = [directory, *path], arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.path[:0], sys.argv = [directory, *path], ["-c", *arguments[2:]]
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path[:0], sys.argv = [str(Path(arguments[0]).parent), *path], arguments
        runpy.run_path(arguments[0], run_name="__main__")


def _forget(names) -> None:
    """Let modules be imported anew for which PYTHONPATH has others."""
    for module in [module for module in sys.modules if module.partition(".")[0] in names]:
        del sys.modules[module]


if __name__ == "__main__":
    serve(sys.argv[1], socket.socket(fileno=int(sys.argv[2])), sys.argv[3:])
