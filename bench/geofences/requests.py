"""Community rides requested and confirmed over HTTP, and plain rides of the same server."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from bench.geofences.world import What, Wish, count_rows, make_wishes
from bench.pace import send_paced
from bench.wrk import HttpLoad

# More than the server can answer.
WISHES_A_SECOND = 2500
PACED_SECONDS = 5
CONNECTIONS = 64
PATHS: dict[What, str] = {
    "plain": "/v1/rides",
    "ask": "/api/governance/ride/request",
    "confirm": "/api/governance/ride/request",
}
STATUSES: dict[What, int] = {"plain": 201, "ask": 202, "confirm": 201}
# One line per request: the passenger's token and the body.
SCRIPT = """
local lines = {}
for line in io.lines("%s") do lines[#lines + 1] = line end
local count = 0
request = function()
  count = count + 1
  local token, body = lines[count]:match("(%%S+) (.+)")
  wrk.headers["Authorization"] = "Bearer " .. token
  return wrk.format("POST", nil, wrk.headers, body)
end
"""


@dataclass(frozen=True, slots=True)
class LandPlace:
    """A server whose database has many communities."""

    url: str
    database_url: str
    secret: str


@dataclass(frozen=True, slots=True)
class WishLoad:
    """Each request is of another passenger."""

    what: What
    place: LandPlace

    def per_second(self, *, seconds: int, connections: int, folder: Path) -> float:
        wishes = self._wishes(WISHES_A_SECOND * seconds)
        before = asyncio.run(count_rows(self.place.database_url, self.what))
        lines = folder / f"{self.what}.txt"
        lines.write_text("\n".join(f"{wish.bearer} {wish.body}" for wish in wishes))
        url = self.place.url + PATHS[self.what]
        load = HttpLoad(url, {"Content-Type": "application/json"}, SCRIPT % lines)
        rate = load.per_second(seconds=seconds, connections=connections, folder=folder)
        made = asyncio.run(count_rows(self.place.database_url, self.what)) - before
        if made < int(rate * seconds) - connections:
            raise RuntimeError(f"{rate * seconds:.0f} answers to {self.what}, and {made} of that came")
        return rate

    def milliseconds(self, *, per_second: float) -> tuple[float, float]:
        """Median and 99th percentile at this pace, measured from the time each request was due."""
        taken: list[float] = []
        asyncio.run(
            send_paced(
                self.place.url,
                [self._request(wish) for wish in self._wishes(int(per_second * PACED_SECONDS))],
                lambda due_at, _: taken.append(perf_counter() - due_at),
                per_second=per_second,
                connections=CONNECTIONS,
                status=STATUSES[self.what],
            )
        )
        taken.sort()
        return taken[len(taken) // 2] * 1000, taken[len(taken) * 99 // 100] * 1000

    def _wishes(self, count: int) -> list[Wish]:
        return asyncio.run(make_wishes(self.place.database_url, self.place.secret, self.what, count))

    def _request(self, wish: Wish) -> bytes:
        return (
            f"POST {PATHS[self.what]} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {wish.bearer}\r\nContent-Length: {len(wish.body)}\r\n\r\n{wish.body}"
        ).encode()
