"""`catraca ...` as a shell runs it, without its imports: a process that has made them forks for each command.

Most of a command's second is imports, and tests type hundreds of them. What it finds in its environment, its
folder and its input, what it says, and how it ends are the command's own; how it starts: `test_commands`.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from catraca.platform.embedded.children import end_with_parent

COMMAND_SECONDS = 120


class Order(msgspec.Struct, array_like=True):
    """A command to run; its standard input, output and errors are files in `folder`."""

    arguments: list[str]
    environment: dict[str, str]
    working_folder: str
    folder: str


async def type_in(
    *arguments: object, environment: dict[str, str], folder: Path, stdin: bytes = b""
) -> tuple[int, str, str]:
    """Answers the exit code and what was said, on either stream."""
    forker = _forker()  # in this thread: it ends with the one that started it
    return await asyncio.to_thread(_run, forker, [str(one) for one in arguments], environment, folder, stdin)


def _run(
    forker: str, arguments: list[str], environment: dict[str, str], folder: Path, stdin: bytes
) -> tuple[int, str, str]:
    with TemporaryDirectory() as scratch:
        files = Path(scratch)
        (files / "stdin").write_bytes(stdin)
        order = Order(arguments, environment, str(folder), scratch)
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(COMMAND_SECONDS)
            line.connect(forker)
            line.sendall(msgspec.json.encode(order) + b"\n")
            code = int(line.makefile().readline())
        return code, (files / "stdout").read_text(), (files / "stderr").read_text()


@cache
def _forker() -> str:
    """The socket path of a process that forks for each command; it ends with the test process."""
    folder = TemporaryDirectory()
    path = f"{folder.name}/line"
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, path],
        # Where metrics go is settled when they are imported: a command's go nowhere.
        env={name: value for name, value in os.environ.items() if name != "PROMETHEUS_MULTIPROC_DIR"},
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
    import catraca.roles.api  # noqa: F401 - for what it imports

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(16)
        print("ready", flush=True)
        while True:
            line, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _attend(line)
            line.close()
            _reap()


def _reap() -> None:
    """Collect finished children."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        pass


def _attend(line: socket.socket) -> None:
    """Fork the command itself and report its exit code."""
    order = msgspec.json.decode(line.makefile().readline(), type=Order)
    command = os.fork()
    if command == 0:
        line.close()
        _become(order)
    _, status = os.waitpid(command, 0)
    line.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _become(order: Order) -> None:
    """The command, in its place in the world."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT
        os.dup2(os.open(f"{order.folder}/{name}", flags, 0o600), number)
    os.environ.clear()
    os.environ.update(order.environment)
    time.tzset()
    os.chdir(order.working_folder)
    sys.argv = ["catraca", *order.arguments]
    sys.modules["__main__"].__package__ = None  # what it calls itself is `catraca`
    code = 1
    try:
        from catraca.cli import main

        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - as Python itself would
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1])
