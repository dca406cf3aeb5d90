"""Guards every URL that a user or an operator gives and that the server calls.

`read_url` checks the form of the URL, when it is given and when it is called. `OutboundCaller` checks the
address that the host has when it is called, and connects to that very address: a name that later has another
address (DNS rebinding) changes nothing. Redirects are not followed, and proxies of the environment not used.
"""

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

DEFAULT_PORTS = {"https": 443, "http": 80}
MAX_PORT = 65535
ADDRESSES_TRIED = 3
# No user information, no fragment, no IPv6 literal with a zone id, nothing that parsers read differently.
URL_SHAPE = re.compile(
    r"(?P<scheme>[a-z]+)://(?P<host>[a-z0-9-]+(\.[a-z0-9-]+)*)(:(?P<port>[0-9]{1,5}))?"
    r"(?P<target>[/?][!\"$-\[\]-~]*)?"
)
# Of the global addresses: Teredo and other protocol assignments, documentation, 6to4, which contain others.
NOT_ORDINARY = [
    ipaddress.IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
]
GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class UrlRefused(ValueError):
    """The URL does not have the form of an address that the server may call."""


class CallFailed(Exception):
    """There is no answer; `code` is the reason."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class AddressRefused(CallFailed):
    """The host has an address that is not public; no connection was made."""


@dataclass(frozen=True, slots=True)
class OutboundUrl:
    scheme: str
    host: str
    port: int
    # The path and the query.
    target: str

    @property
    def authority(self) -> str:
        return self.host if self.port == DEFAULT_PORTS[self.scheme] else f"{self.host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    def at(self, address: str) -> str:
        """The URL with this address instead of the host."""
        host = f"[{address}]" if ":" in address else address
        return f"{self.scheme}://{host}:{self.port}{self.target}"


def read_url(text: str, *, schemes: Collection[str] = ("https",), inside: bool = False) -> OutboundUrl:
    """The parts of the URL, with scheme and host in lower case; raises `UrlRefused`.

    `inside`: the URL is an operator's, and its host may be a single name, as in the operator's own network.
    """
    # Only ASCII: lower case of some other letters is ASCII.
    scheme, mark, rest = text.partition("://")
    end = next((place for place, letter in enumerate(rest) if letter in "/?"), len(rest))
    shape = URL_SHAPE.fullmatch(scheme.lower() + mark + rest[:end].lower() + rest[end:])
    if shape is None or not text.isascii() or shape["scheme"] not in schemes:
        raise UrlRefused("the address is https:// and the name of a host, without user or fragment")
    port = int(shape["port"] or DEFAULT_PORTS[shape["scheme"]])
    if not 1 <= port <= MAX_PORT or not (inside or "." in shape["host"]):
        raise UrlRefused("the address needs the whole name of a host, and a port up to 65535")
    return OutboundUrl(shape["scheme"], shape["host"], port, shape["target"] or "/")


def is_public(address: str) -> bool:
    """True for an ordinary address of the Internet.

    False for private, loopback, link-local, multicast, reserved and unspecified addresses, and for IPv6
    addresses that contain an IPv4 address (mapped, NAT64, 6to4, Teredo), which may lead to any of those.
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:  # also with a zone id
        return False
    if isinstance(found, ipaddress.IPv6Address):
        ordinary = found in GLOBAL_UNICAST and not any(found in network for network in NOT_ORDINARY)
        return ordinary and found.scope_id is None
    return found.is_global and not found.is_multicast and not found.is_reserved


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of the host that this machine can connect to, each once."""
    found = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
    )
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class OutboundCaller:
    """Calls URLs of users. A new connection for each call, so none is shared by two hosts."""

    def __init__(
        self,
        *,
        seconds: float,
        own_origins: Collection[str] = (),
        resolve: Resolve = resolve,
        is_allowed: Callable[[str], bool] = is_public,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`seconds`: for a whole call. `own_origins`: named by the operator, may have any address."""
        self._seconds = seconds
        self._own_origins = frozenset(own_origins)
        self._resolve = resolve
        self._is_allowed = is_allowed
        self._tls = tls

    async def post(self, url: OutboundUrl, content: bytes, headers: Mapping[str, str]) -> int:
        """The status of the answer, whose body is not read. Raises `CallFailed`, or `AddressRefused`."""
        import httpx  # takes long, and few processes call

        self._tls = self._tls or ssl.create_default_context()
        try:
            async with asyncio.timeout(self._seconds):
                addresses = await self._addresses(url)
                async with httpx.AsyncClient(
                    verify=self._tls, timeout=self._seconds, trust_env=False, follow_redirects=False
                ) as http:
                    for address in addresses[:-1]:
                        try:
                            return await _post(http, url, address, content, headers)
                        except httpx.ConnectError:
                            continue
                    return await _post(http, url, addresses[-1], content, headers)
        except (httpx.HTTPError, OSError) as error:  # a TimeoutError is an OSError
            raise CallFailed(type(error).__name__) from error

    async def _addresses(self, url: OutboundUrl) -> Sequence[str]:
        addresses = (await self._resolve(url.host, url.port))[:ADDRESSES_TRIED]
        if not addresses:
            raise CallFailed("no_address")
        # One that is not allowed refuses them all: the name is not what it claims to be.
        if url.origin not in self._own_origins and not all(self._is_allowed(one) for one in addresses):
            raise AddressRefused("address_refused")
        return addresses


async def _post(
    http: "httpx.AsyncClient", url: OutboundUrl, address: str, content: bytes, headers: Mapping[str, str]
) -> int:
    # The certificate must be the host's, though the connection is to the address.
    request = http.build_request(
        "POST",
        url.at(address),
        content=content,
        headers={"host": url.authority, **headers},
        extensions={"sni_hostname": url.host},
    )
    response = await http.send(request, stream=True)
    await response.aclose()
    return response.status_code
