"""Processes without the cost of imports: a process that has imported Catraca forks for each of them.

Imports take more than a second of processor time, and the tests start hundreds of processes. A forked process
has its own environment, working folder, files, signals and exit code. How `python -m catraca` itself starts
is tested by `test_commands`, `test_serve` and the journeys of `catraca up`.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

import msgspec

from catraca.platform.embedded.children import end_with_parent

COMMAND_SECONDS = 120
CATRACA = "catraca.cli:main"
METRICS = "PROMETHEUS_MULTIPROC_DIR"


class Order(msgspec.Struct, array_like=True):
    """A process to start; `files` are the paths of its standard input, output and errors."""

    # Module and function, such as `catraca.cli:main`.
    entry: str
    arguments: list[str]
    environment: dict[str, str]
    working_folder: str
    files: tuple[str, str, str]


class ForkedProcess:
    """A running process, with the methods of `subprocess.Popen` that the tests use.

    It is killed when the process that started it ends.
    """

    def __init__(self, order: Order) -> None:
        self.returncode: int | None = None
        self._received = b""
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(_forker())
        self._connection.sendall(msgspec.json.encode(order) + b"\n")
        self.pid = int(self._line())

    def poll(self) -> int | None:
        if self.returncode is None:
            self._connection.setblocking(False)
            with suppress(BlockingIOError):
                self._read_exit_code()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._connection.settimeout(timeout)
            self._read_exit_code()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _read_exit_code(self) -> None:
        self.returncode = int(self._line())
        self._connection.close()

    def _line(self) -> bytes:
        """The next line from the forker; raises `BlockingIOError` or `TimeoutError` while it is not there."""
        while b"\n" not in self._received:
            received = self._connection.recv(64)
            assert received, "the forker has ended"
            self._received += received
        line, _, self._received = self._received.partition(b"\n")
        return line


def start(
    entry: str,
    *arguments: str,
    environment: Mapping[str, str],
    folder: Path | None = None,
    stdin: Path | None = None,
    stdout: Path | None = None,
    stderr: Path | None = None,
) -> ForkedProcess:
    """Start a process that calls `entry`. Output is appended to the files, or goes to our standard error."""
    files = (str(stdin or os.devnull), str(stdout or ""), str(stderr or ""))
    return ForkedProcess(Order(entry, list(arguments), dict(environment), str(folder or Path.cwd()), files))


async def run_catraca(
    *arguments: object,
    environment: Mapping[str, str],
    folder: Path | None = None,
    stdin: bytes = b"",
    seconds: float = COMMAND_SECONDS,
) -> tuple[int, str, str]:
    """Run `catraca ...` to its end; return the exit code, the output and the errors."""
    _forker()  # from the main thread: the forker ends with the thread that started it
    with TemporaryDirectory() as scratch:
        files = {name: Path(scratch, name) for name in ("stdin", "stdout", "stderr")}
        files["stdin"].write_bytes(stdin)
        words = [str(one) for one in arguments]
        process = start(CATRACA, *words, environment=environment, folder=folder, **files)
        code = await asyncio.to_thread(process.wait, seconds)
        return code, files["stdout"].read_text(), files["stderr"].read_text()


@cache
def _forker() -> str:
    """The socket path of the process that forks; it ends with this process."""
    folder = TemporaryDirectory()
    path = f"{folder.name}/socket"
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, path],
        # `prometheus_client` decides on import to write metrics into files; `catraca serve` says later where.
        env={**os.environ, METRICS: folder.name},
        stdout=subprocess.PIPE,
        preexec_fn=end_with_parent(signal.SIGKILL),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    _kept.append((folder, process))
    return path


_kept: list[object] = []


def _serve(path: str) -> None:
    import catraca.cli
    import catraca.roles.api
    import catraca.roles.doctor.checkup
    import catraca.roles.runner  # noqa: F401 - all for what they import

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(16)
        os.write(1, b"ready\n")
        os.dup2(2, 1)  # the pipe is not read any further
        while True:
            connection, _ = listener.accept()
            _in_child(lambda connection=connection: _attend(connection))
            connection.close()
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG) != (0, 0):
                    pass


def _attend(connection: socket.socket) -> int:
    """Fork the process, send its id, and its exit code when it has ended."""
    order = msgspec.json.decode(connection.makefile().readline(), type=Order)
    pid = _in_child(lambda: _run(order, connection))
    connection.sendall(b"%d\n" % pid)
    _, status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):  # the test no longer asks
        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    return 0


def _in_child(work: Callable[[], int]) -> int:
    """Fork; the child exits with what `work` returns, or is killed when its parent ends. Returns its id."""
    killed_with_parent = end_with_parent(signal.SIGKILL)
    pid = os.fork()
    if pid == 0:
        _exit_with(work, killed_with_parent)
    return pid


def _exit_with(work: Callable[[], int], prepare: Callable[[], None]) -> NoReturn:
    code = 1
    try:
        prepare()
        code = work()
    except BaseException:  # noqa: BLE001 - printed, as Python itself does
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _run(order: Order, connection: socket.socket) -> int:
    """Give this process its environment, folder and files, and call the entry; returns the exit code."""
    connection.close()
    for number, name in enumerate(order.files):
        if name:
            flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
            os.dup2(os.open(name, flags, 0o600), number)
    metrics = os.environ[METRICS]
    os.environ.clear()
    os.environ.update({**order.environment, METRICS: metrics})
    time.tzset()
    os.chdir(order.working_folder)
    sys.argv = ["catraca", *order.arguments]
    sys.modules["__main__"].__package__ = None  # so that usage lines begin with `catraca`
    module, _, function = order.entry.partition(":")
    try:
        getattr(import_module(module), function)()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


if __name__ == "__main__":
    _serve(sys.argv[1])
