"""The port: bound once and inherited, so no connection is lost when one of the workers behind it dies."""

import asyncio
import errno
import socket
from collections.abc import Callable

from catraca.roles.metrics import MetricsFolder

BACKLOG = 2048
# A killed supervisor's workers drain before they let go of the port.
LEFTOVER_SECONDS = 20.0
POLL_SECONDS = 0.05
PATIENCE_SECONDS = 1.0
ANSWER_BYTES = 16 * 1024


class ListenFailed(Exception):
    """The address cannot be listened on; the message names the way out."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        self.taken = error.errno == errno.EADDRINUSE
        if self.taken:
            what = f"port {port} on {host} is taken by another program: stop it, or choose another"
        else:
            what = f"port {port} on {host} cannot be listened on ({error.strerror or error}): choose another"
        super().__init__(f"{what} with CATRACA_PORT (and CATRACA_HOST)")


def open_listener(host: str, port: int) -> socket.socket:
    """Listen at once: from here on nobody else can take the port, and early callers wait for a worker."""
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=BACKLOG
        )
    except OSError as error:
        raise ListenFailed(host, port, error) from error


async def claim_port(
    host: str, port: int, folder: MetricsFolder, say: Callable[[str], None]
) -> socket.socket:
    """Listen, after the leftover workers of a killed supervisor of this state folder have let go."""
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
    """What a server on this machine answers to a GET, head and all; nothing when it does not in time."""
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
