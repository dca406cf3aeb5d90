"""The listening socket: opened once and inherited by workers, so a worker's death loses no connection."""

import asyncio
import errno
import socket
from collections.abc import Callable

from catraca.roles.metrics import MetricsFolder

BACKLOG = 2048
# A killed supervisor's workers drain before they close the port.
LEFTOVER_SECONDS = 20.0
POLL_SECONDS = 0.05
PATIENCE_SECONDS = 1.0
ANSWER_BYTES = 16 * 1024


class ListenFailed(Exception):
    """The address cannot be used; the message says what to do."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        self.taken = error.errno == errno.EADDRINUSE
        if self.taken:
            what = f"port {port} on {host} is taken by another program: stop it, or choose another"
        else:
            what = f"port {port} on {host} cannot be listened on ({error.strerror or error}): choose another"
        super().__init__(f"{what} with CATRACA_PORT (and CATRACA_HOST)")


def open_listener(host: str, port: int) -> socket.socket:
    """Bind and listen: from now on the port is ours, and early connections wait for a worker."""
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=BACKLOG
        )
    except OSError as error:
        raise ListenFailed(host, port, error) from error


async def claim_port(
    host: str, port: int, folder: MetricsFolder, say: Callable[[str], None]
) -> socket.socket:
    """Listen, after leftover workers of a killed supervisor on this state folder have closed the port."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    told = False
    while True:
        try:
            return open_listener(host, port)
        except ListenFailed as failure:
            if not failure.taken or not folder.in_use() or loop.time() > began + LEFTOVER_SECONDS:
                raise
        if not told and loop.time() > began + PATIENCE_SECONDS:
            told = True
            say(f"Waiting for workers of an earlier run to finish and let go of port {port}")
        await asyncio.sleep(POLL_SECONDS)


async def fetch(address: str, path: str, *, seconds: float) -> bytes:
    """The raw answer of a local server to a GET; empty when it does not answer in time."""
    host, _, port = address.rpartition(":")
    answer = b""
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n".encode())
                while len(answer) < ANSWER_BYTES and (more := await reader.read(ANSWER_BYTES)):
                    answer += more
            finally:
                writer.close()
    except OSError:
        return b""
    return answer


def callable_address(host: str, port: int) -> str:
    """`host:port` as a client on this machine can use it."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
