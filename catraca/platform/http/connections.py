"""The connections of a server: their number by address, and the order in which they became idle."""

import ipaddress
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Protocol

from catraca.platform.http.proxies import Network, caller_of, parse_address

LOOPBACK: Final[tuple[Network, ...]] = (
    ipaddress.ip_network("127.0.0.0/8"),
    ipaddress.ip_network("::1/128"),
)


class Idle(Protocol):
    """A connection that waits for a request."""

    def close_idle(self) -> None: ...


class Connections:
    """Counts connections by address. The address of a proxy, which stands for many people, is not counted."""

    def __init__(self, *, most_per_address: int, proxies: Sequence[Network] = ()) -> None:
        self._most_per_address = most_per_address
        self._counts: dict[str, int] = {}
        # Without values: a dict keeps the order, so that the first one has been idle longest.
        self._idle: dict[Idle, None] = {}
        self._idle_by_address: dict[str, dict[Idle, None]] = {}

        @lru_cache(maxsize=4096)
        def key_of(host: str) -> str | None:
            address = parse_address(host)
            if address is None or any(address in network for network in proxies):
                return None
            return caller_of(host)

        self._key_of = key_of

    def key_of(self, client: tuple[str, int] | None) -> str | None:
        """The address under which a connection is counted; None if it is not counted."""
        return None if client is None else self._key_of(client[0])

    def add(self, key: str | None) -> bool:
        """Count a connection. False if its address then has too many."""
        if key is None:
            return True
        self._counts[key] = count = self._counts.get(key, 0) + 1
        return count <= self._most_per_address

    def remove(self, key: str | None) -> None:
        if key is None:
            return
        self._counts[key] -= 1
        if not self._counts[key]:
            del self._counts[key]

    def idle(self, connection: Idle, key: str | None) -> None:
        """The connection waits for a request from now on."""
        self._idle.pop(connection, None)
        self._idle[connection] = None
        if key is not None:
            of_address = self._idle_by_address.setdefault(key, {})
            of_address.pop(connection, None)
            of_address[connection] = None

    def busy(self, connection: Idle, key: str | None) -> None:
        """The connection has a request, or ends."""
        self._idle.pop(connection, None)
        if key is not None and key in self._idle_by_address:
            self._idle_by_address[key].pop(connection, None)
            if not self._idle_by_address[key]:
                del self._idle_by_address[key]

    def close_longest_idle(self, key: str | None = None) -> bool:
        """Close the connection that has been idle longest, of all or of one address. False: none is idle."""
        idle = self._idle if key is None else self._idle_by_address.get(key)
        if not idle:
            return False
        next(iter(idle)).close_idle()
        return True
