"""Client addresses behind proxies, and CORS."""

from ipaddress import ip_network

import pytest
from fastapi import APIRouter, Request

from catraca.platform.http.proxies import Network, caller_of, parse_address
from catraca.roles.parts import Parts
from catraca.settings import WrongSettings, read_settings
from tests.servers import on_one_stack
from tests.support.http import served

OURS = [ip_network("127.0.0.1"), ip_network("10.1.0.0/16"), ip_network("2001:db8:1::/48")]

router = APIRouter()


@router.get("/whoami")
async def whoami(request: Request) -> tuple[str, str]:
    assert request.client
    return request.client.host, request.url.scheme


async def seen(parts: Parts, trusted: list[Network], *headers: tuple[str, str]) -> list[str]:
    async with served(parts, [router], trusted_proxies=trusted) as server, server.client() as client:
        return (await client.get("/whoami", headers=list(headers))).json()


FORWARDED = {
    "one hop": (["203.0.113.9"], "203.0.113.9"),
    "a hop of ours in between": (["203.0.113.9, 10.1.2.3"], "203.0.113.9"),
    "what the client wrote itself stands left": (["198.51.100.1, 203.0.113.9, 10.1.2.3"], "203.0.113.9"),
    "several headers": (["198.51.100.1", "203.0.113.9", "10.1.2.3"], "203.0.113.9"),
    "with a port": (["203.0.113.9:4711"], "203.0.113.9"),
    "IPv6 in brackets": (["[2001:db8:9::1]:4711, 2001:db8:1::2"], "2001:db8:9::1"),
    "IPv4 in IPv6": (["::ffff:203.0.113.9"], "203.0.113.9"),
    "ours all the way": (["10.1.2.3, 10.1.2.4"], "10.1.2.3"),
    "nonsense": (["unknown"], "127.0.0.1"),
    "nonsense before a hop of ours": (["<script>, 10.1.2.3"], "10.1.2.3"),
    "nothing": ([""], "127.0.0.1"),
}  # fmt: skip


@on_one_stack
@pytest.mark.parametrize("name", FORWARDED)
async def test_client_is_the_first_untrusted_address(parts: Parts, name: str) -> None:
    values, expected = FORWARDED[name]
    assert (await seen(parts, OURS, *(("x-forwarded-for", value) for value in values)))[0] == expected


@on_one_stack
async def test_headers_of_an_untrusted_client_are_ignored(parts: Parts) -> None:
    spoofed = [("x-forwarded-for", "203.0.113.9"), ("x-forwarded-proto", "https")]
    assert await seen(parts, [], *spoofed) == ["127.0.0.1", "http"]
    assert await seen(parts, [ip_network("10.1.0.0/16")], *spoofed) == ["127.0.0.1", "http"]


@on_one_stack
async def test_https_behind_a_proxy_sends_strict_transport_security(parts: Parts) -> None:
    async with served(parts, [router], trusted_proxies=OURS) as server, server.client() as client:
        answer = await client.get("/whoami", headers={"x-forwarded-proto": "https"})
        assert answer.json()[1] == "https"
        assert answer.headers["strict-transport-security"].startswith("max-age=")
        for odd in ("http", "gopher", ""):
            answer = await client.get("/whoami", headers={"x-forwarded-proto": odd})
            assert answer.json()[1] == "http"
            assert "strict-transport-security" not in answer.headers


def test_malformed_trusted_proxies_are_an_error() -> None:
    assert read_settings(trusted_proxies="10.0.0.1, 10.1.0.0/16,2001:db8::/32").http.trusted_proxies == [
        ip_network("10.0.0.1"),
        ip_network("10.1.0.0/16"),
        ip_network("2001:db8::/32"),
    ]
    for slip in ("*", "proxy.local", "10.1.2.3/16", "10.1.0.0/33"):
        with pytest.raises(WrongSettings):
            read_settings(trusted_proxies=slip)


def test_anonymous_caller_is_an_ipv4_address_or_ipv6_network() -> None:
    assert caller_of("203.0.113.9") == caller_of("::ffff:203.0.113.9") == "203.0.113.9"
    assert caller_of("2001:db8:1:2::1") == caller_of("2001:db8:1:2:ffff::9") == "2001:db8:1:2::/64"
    assert caller_of("fe80::1%eth0") == "fe80::/64"
    assert parse_address("not an address") is None


@on_one_stack
async def test_cors_allows_only_listed_origins(parts: Parts) -> None:
    ours, other = {"origin": "https://app.example"}, {"origin": "https://evil.example"}
    asking = {"access-control-request-method": "PATCH", "access-control-request-headers": "idempotency-key"}
    async with (
        served(parts, [router], cors_origins=["https://app.example"]) as server,
        server.client() as client,
    ):
        preflight = await client.options("/v1/me", headers=ours | asking)
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-origin"] == "https://app.example"
        assert "access-control-allow-credentials" not in preflight.headers
        head = {"access-control-request-method": "HEAD"}
        assert (await client.options("/v1/me", headers=ours | head)).status_code == 200
        refused = await client.options("/v1/me", headers=other | asking)
        assert "access-control-allow-origin" not in refused.headers
        for path, status in (("/whoami", 200), ("/v1/me", 401), ("/whoami?%00", 400)):
            answer = await client.get(path, headers=ours)
            assert answer.status_code == status
            assert answer.headers["access-control-allow-origin"] == "https://app.example"
            assert "x-request-id" in answer.headers["access-control-expose-headers"].lower()
            assert "origin" in answer.headers["vary"].lower()
            assert "access-control-allow-origin" not in (await client.get(path, headers=other)).headers


@on_one_stack
async def test_cors_is_off_without_origins(parts: Parts) -> None:
    async with served(parts, [router]) as server, server.client() as client:
        answer = await client.get("/whoami", headers={"origin": "https://app.example"})
        assert "access-control-allow-origin" not in answer.headers
