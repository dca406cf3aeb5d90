"""Client addresses behind proxies: `X-Forwarded-*` is used only if it comes from a trusted proxy."""

import ipaddress
from collections.abc import Sequence
from functools import lru_cache

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

HOPS_READ = 20


class TrustedProxies:
    """ASGI middleware. The client is the first untrusted address, from the nearest hop on."""

    def __init__(self, app: ASGIApp, *, networks: Sequence[Network]) -> None:
        self._app = app
        self._networks = tuple(networks)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        if client and self._trusts(parse_address(client[0])):
            self._believe(scope, parse_address(client[0]))
        await self._app(scope, receive, send)

    def _believe(self, scope: Scope, client: Address | None) -> None:
        hops: list[bytes] = []
        for name, value in scope["headers"]:
            if name == b"x-forwarded-for":
                hops += value.split(b",")
            elif name == b"x-forwarded-proto":
                scheme = value.rpartition(b",")[2].strip().lower()
                if scheme in (b"http", b"https"):
                    plain = "ws" if scope["type"] == "websocket" else "http"
                    scope["scheme"] = plain + "s" if scheme == b"https" else plain
        for hop in reversed(hops[-HOPS_READ:]):
            address = parse_address(hop.decode("latin-1"))
            if address is None:
                break  # not an address, so what precedes it is not from a proxy of ours
            client = address
            if not self._trusts(address):
                break
        scope["client"] = (str(client), 0)

    def _trusts(self, address: Address | None) -> bool:
        return address is not None and any(address in network for network in self._networks)


@lru_cache(maxsize=4096)
def parse_address(text: str) -> Address | None:
    """An address from a socket or proxy: with a port, in brackets, or IPv4 mapped into IPv6."""
    host = text.strip()[:64]
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


@lru_cache(maxsize=4096)
def caller_of(host: str) -> str:
    """The key of an anonymous caller: an IPv4 address or an IPv6 /64, which is one subscriber."""
    address = parse_address(host)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


def address_of(request: HTTPConnection) -> str:
    """The key of the network address that sent the request."""
    return caller_of(request.client.host) if request.client else "unknown"
