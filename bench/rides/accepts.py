"""Accepts of different rides over HTTP, each by its own driver with its own token."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from bench.rides.pgbench import RIDES_A_SECOND, pgbench_per_second
from bench.rides.world import DRIVER, RIDE, OpenRides, count_accepted, make_rides, numbered_id, token_of
from bench.wrk import HttpLoad

# One line per request: ride, driver, token.
SCRIPT = """
local lines = {}
for line in io.lines("%s") do lines[#lines + 1] = line end
local count = 0
request = function()
  count = count + 1
  local ride, driver, token = lines[count]:match("(%%S+) (%%S+) (%%S+)")
  wrk.headers["Authorization"] = "Bearer " .. token
  return wrk.format("POST", "/rides/" .. ride .. "/accept", wrk.headers,
    '{"driver_id":"' .. driver .. '","idempotency_key":"measured"}')
end
"""


def accept_request(number: int, secret: str) -> bytes:
    """Return the same request as bytes."""
    body = f'{{"driver_id":"{numbered_id(DRIVER, number)}","idempotency_key":"measured"}}'
    return (
        f"POST /rides/{numbered_id(RIDE, number)}/accept HTTP/1.1\r\nHost: bench\r\n"
        f"Content-Type: application/json\r\nAuthorization: Bearer {token_of(number, secret)}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


@dataclass(frozen=True, slots=True)
class AcceptLoad:
    url: str
    database_url: str
    secret: str

    def per_second(self, *, seconds: int, connections: int, folder: Path) -> float:
        rides = asyncio.run(make_rides(self.database_url, RIDES_A_SECOND * seconds))
        requests = folder / "accepts.txt"
        requests.write_text("\n".join(self._line(number) for number in rides))
        load = HttpLoad(self.url, {"Content-Type": "application/json"}, SCRIPT % requests)
        rate = load.per_second(seconds=seconds, connections=connections, folder=folder)
        self._check(rides, rate * seconds, connections)
        return rate

    def _line(self, number: int) -> str:
        return f"{numbered_id(RIDE, number)} {numbered_id(DRIVER, number)} {token_of(number, self.secret)}"

    def _check(self, rides: OpenRides, answers: float, connections: int) -> None:
        """Check that every answer was an accepted ride, except for requests under way at the end."""
        accepted = asyncio.run(count_accepted(self.database_url, rides))
        if accepted < answers - 2 * connections:
            raise RuntimeError(f"{answers:.0f} answers, but {accepted} rides accepted")


@dataclass(frozen=True, slots=True)
class PgbenchLoad:
    database_url: str

    def per_second(self, *, seconds: int, connections: int, folder: Path) -> float:
        return pgbench_per_second(self.database_url, seconds=seconds, connections=connections, folder=folder)
