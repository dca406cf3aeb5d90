"""URLs of users: their form, the address they have when they are called, and no other address."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from catraca.platform.outbound import (
    AddressRefused,
    CallFailed,
    OutboundCaller,
    OutboundUrl,
    UrlRefused,
    is_public,
    read_url,
)
from tests.support.certificates import write_certificate
from tests.support.push_service import PushService, push_service

BOTH = ("https", "http")


def test_url_has_scheme_host_port_and_target() -> None:
    assert read_url("HTTPS://Push.Example.NET/Send/A?x=1") == OutboundUrl(
        "https", "push.example.net", 443, "/Send/A?x=1"
    )
    assert read_url("https://push.example.net:8443").origin == "https://push.example.net:8443"
    assert read_url("https://push.example.net?x=1").at("2606:4700::1") == "https://[2606:4700::1]:443?x=1"
    assert read_url("http://localhost:80/", schemes=BOTH, inside=True).origin == "http://localhost"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "https:",
        "https://",
        "https:///x",
        "push.example.net",
        "//push.example.net/",
        "http://push.example.net/",
        "ftp://push.example.net/",
        "https://localhost/",
        "https://[::1]/",
        "https://[::1%25.push.apple.com]/x",
        "https://user@push.example.net/",
        "https://user:word@push.example.net/",
        "https://push.example.net:/",
        "https://push.example.net:0/",
        "https://push.example.net:65536/",
        "https://push.example.net:+443/",
        "https://push.example.net./",
        "https://push..example.net/",
        "https://push_1.example.net/",
        "https://push.example.net#x",
        "https://push.example.net/#x",
        "https://push.example.net\\@inside/",
        "https://push.example.net/\\x",
        "https://push.example.net/a b",
        "https://push.example.net/\n",
        "https://push.example.net\n",
        " https://push.example.net/",
        "https://\u212aey.example.net/",
        "https://push.example.net/\u00e9",
        "https://push%2eexample.net/",
    ],
)
def test_urls_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(UrlRefused):
        read_url(text)


@pytest.mark.parametrize("address", ["1.1.1.1", "8.8.8.8", "172.15.0.1", "2606:4700:4700::1111", "2a00::1"])
def test_internet_addresses_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.0.0.1",
        "100.64.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "192.0.0.1",
        "192.0.2.1",
        "192.168.1.1",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "3fff::1",
        "fc00::1",
        "fd12::1",
        "fe80::1",
        "fe80::1%eth0",
        "2606:4700::1%eth0",
        "fec0::1",
        "ff02::1",
        "not an address",
    ],
)
def test_other_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)


def port_of(service: PushService) -> int:
    return int(service.origin.rpartition(":")[2])


class Names:
    """A resolver whose answer changes with each question."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)

    async def __call__(self, _host: str, _port: int) -> Sequence[str]:
        return self._answers.pop(0)


@pytest.mark.parametrize("answer", [["127.0.0.1"], ["1.1.1.1", "127.0.0.1"], ["::ffff:127.0.0.1"]])
async def test_name_of_an_inside_address_is_not_called(answer: list[str]) -> None:
    async with push_service() as service:
        caller = OutboundCaller(seconds=5, resolve=Names(answer))
        url = read_url(f"http://push.example.net:{port_of(service)}/x", schemes=BOTH)
        with pytest.raises(AddressRefused):
            await caller.post(url, b"", {})
        assert service.taken == []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "2130706433.0"])
async def test_inside_address_as_a_host_is_not_called(host: str) -> None:
    async with push_service() as service:
        url = read_url(f"http://{host}:{port_of(service)}/x", schemes=BOTH)
        with pytest.raises(CallFailed):
            await OutboundCaller(seconds=5).post(url, b"", {})
        assert service.taken == []


async def test_checked_address_is_called_without_a_second_question() -> None:
    async with push_service() as service:
        names = Names(["127.0.0.1"], ["127.0.0.2"])
        caller = OutboundCaller(seconds=5, resolve=names, is_allowed=lambda address: address == "127.0.0.1")
        url = read_url(f"http://push.example.net:{port_of(service)}/x?y", schemes=BOTH)
        assert await caller.post(url, b"body", {"ttl": "1"}) == 201
        (taken,) = service.taken
    assert (taken.path, taken.body, taken.headers["ttl"]) == ("/x?y", b"body", "1")
    assert taken.headers["host"] == f"push.example.net:{port_of(service)}"


async def test_next_address_is_called_if_one_is_closed() -> None:
    async with push_service() as service:
        names = Names(["127.0.0.9", "127.0.0.1"])
        caller = OutboundCaller(seconds=5, resolve=names, is_allowed=lambda _address: True)
        url = read_url(f"http://push.example.net:{port_of(service)}/", schemes=BOTH)
        assert await caller.post(url, b"", {}) == 201


async def test_operators_origin_may_have_any_address() -> None:
    async with push_service() as service:
        caller = OutboundCaller(seconds=5, own_origins=[service.origin])
        assert await caller.post(read_url(f"{service.origin}/x", schemes=BOTH), b"", {}) == 201
        other = read_url(f"http://127.0.0.2:{port_of(service)}/x", schemes=BOTH)
        with pytest.raises(AddressRefused):
            await caller.post(other, b"", {})


async def test_environment_proxy_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with push_service() as proxy, push_service() as service:
        monkeypatch.setenv("HTTP_PROXY", proxy.origin)
        caller = OutboundCaller(seconds=5, own_origins=[service.origin])
        await caller.post(read_url(f"{service.origin}/x", schemes=BOTH), b"", {})
        assert (len(proxy.taken), len(service.taken)) == (0, 1)


@asynccontextmanager
async def tls_service(folder: Path, name: str) -> AsyncIterator[tuple[PushService, ssl.SSLContext]]:
    """A service with a certificate for this name, and the context of a client that trusts it."""
    path = write_certificate(folder, name)
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(path)
    service = PushService("")
    server = await asyncio.start_server(service.serve, "127.0.0.1", 0, ssl=own)
    service.origin = f"https://{name}:{server.sockets[0].getsockname()[1]}"
    try:
        yield service, ssl.create_default_context(cafile=str(path))
    finally:
        server.close()


async def test_certificate_must_be_of_the_host_not_of_the_address(tmp_path: Path) -> None:
    async with tls_service(tmp_path, "push.example.net") as (service, trusting):
        for host, good in (("push.example.net", True), ("other.example.net", False)):
            caller = OutboundCaller(
                seconds=5, resolve=Names(["127.0.0.1"]), is_allowed=lambda _address: True, tls=trusting
            )
            url = read_url(f"https://{host}:{port_of(service)}/")
            if good:
                assert await caller.post(url, b"", {}) == 201
            else:
                with pytest.raises(CallFailed):
                    await caller.post(url, b"", {})
        assert len(service.taken) == 1
