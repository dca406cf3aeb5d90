"""What is measured, against what, and how much of it we want."""

from dataclasses import dataclass

from bench.wrk import KEYED_POST, PLAIN_POST, Load


@dataclass(frozen=True, slots=True)
class Row:
    """`measured` as a share of `baseline`, both taken in turns within one run."""

    name: str
    against: str
    want: float
    measured: Load
    baseline: Load


@dataclass(frozen=True, slots=True)
class Servers:
    """Where the two servers of one run listen, and a caller's token for the full one."""

    bare_url: str
    full_url: str
    token: str


def rows(servers: Servers) -> list[Row]:
    caller = {"Authorization": f"Bearer {servers.token}", "Content-Type": "application/json"}
    anyone = {"Content-Type": "application/json"}
    bare_get = Load(f"{servers.bare_url}/noop", anyone)
    bare_post = Load(f"{servers.bare_url}/noop", anyone, PLAIN_POST)
    return [
        Row(
            "no-op GET with auth and limits",
            "the same route bare",
            0.5,
            Load(f"{servers.full_url}/noop", caller),
            bare_get,
        ),
        Row(
            "no-op POST with an idempotency key",
            "the same route bare",
            0.25,
            Load(f"{servers.full_url}/noop", caller, KEYED_POST),
            bare_post,
        ),
    ]
