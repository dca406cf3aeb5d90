"""Pings over HTTP in lists, as a device gateway sends them; and the rate of Redis alone."""

import asyncio
import csv
import re
import subprocess
import urllib.request
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from bench.location.world import driver_id, place_of, put_online
from bench.wrk import HttpLoad
from catraca.platform.auth import sign_token
from catraca.platform.geo import METERS_A_DEGREE

PINGS_A_LIST = 100
# More than the concurrent requests, so that no driver's pings overtake each other.
LISTS = 200
DRIVERS = LISTS * PINGS_A_LIST
# Each driver moves back and forth: no ping has the place of the last one, and none is too far from it.
STEPS_METERS = (0.0, 15.0)
# An estimate, to choose the number of commands for the given seconds.
GEOADDS_A_SECOND = 250_000

# One line per list, without the time, which is inserted when the list is sent.
SCRIPT = """
local ffi = require("ffi")
ffi.cdef("typedef struct { long s; long us; } moment; int gettimeofday(moment *at, void *zone);")
local at = ffi.new("moment")
local lists = {}
for line in io.lines("%s") do lists[#lists + 1] = line end
local count = 0
request = function()
  count = count + 1
  ffi.C.gettimeofday(at, nil)
  local second = os.date("!%%Y-%%m-%%dT%%H:%%M:%%S", tonumber(at.s))
  local text = second .. string.format(".%%06dZ", tonumber(at.us))
  return wrk.format("POST", nil, nil, (lists[(count - 1) %% #lists + 1]:gsub("@", text)))
end
"""


@dataclass(frozen=True, slots=True)
class PingLoad:
    """Returns pings per second; raises if a ping was not accepted."""

    url: str
    database_url: str
    redis_url: str
    secret: str

    def per_second(self, *, seconds: int, connections: int, folder: Path) -> float:
        asyncio.run(put_online(self.database_url, self.redis_url, DRIVERS))
        lists = folder / "pings.txt"
        lists.write_text("\n".join(_list(number, step) for step in STEPS_METERS for number in range(LISTS)))
        token = sign_token(self.secret, subject=uuid4(), roles=["service"], lifetime=timedelta(hours=6))
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        load = HttpLoad(f"{self.url}/v1/location/pings", headers, SCRIPT % lists)
        before = _outcomes(self.url)
        rate = load.per_second(seconds=seconds, connections=connections, folder=folder)
        became = _outcomes(self.url) - before
        if set(became) != {"accepted"} or became["accepted"] < int(rate * seconds) * PINGS_A_LIST:
            raise RuntimeError(f"{rate * seconds:.0f} lists answered, and of their pings {dict(became)}")
        return rate * PINGS_A_LIST


def _list(number: int, step_meters: float) -> str:
    pings: list[str] = []
    for driver in range(number * PINGS_A_LIST, (number + 1) * PINGS_A_LIST):
        place = place_of(driver, DRIVERS)
        lat = place.lat + step_meters / METERS_A_DEGREE
        pings.append(
            f'{{"driver_id":"{driver_id(driver)}","lat":{lat:.6f},"lng":{place.lon:.6f},'
            f'"at":"@","accuracy_meters":8.5}}'
        )
    return f"[{','.join(pings)}]"


def _outcomes(url: str) -> Counter[str]:
    """The outcomes of all pings so far, from the server's metrics."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = re.findall(r'^catraca_location_pings_total\{outcome="(\w+)"\} ([\d.e+]+)$', text, re.MULTILINE)
    return Counter({outcome: int(float(count)) for outcome, count in found})


@dataclass(frozen=True, slots=True)
class GeoaddLoad:
    """`redis-benchmark` moves as many members, a hundred commands at a time on one connection.

    A client in C, because redis-py is slower than Redis; one connection, because more were no faster.
    """

    redis_url: str

    def per_second(self, *, seconds: int, connections: int, folder: Path) -> float:
        address = urlsplit(self.redis_url)
        count, members = GEOADDS_A_SECOND * seconds, DRIVERS
        where = ["-s", address.path, "--dbnum", parse_qs(address.query)["db"][0]]
        how = ["--csv", "-c", "1", "-P", str(PINGS_A_LIST), "-n", str(count), "-r", str(members)]
        # Random places within some hundred metres; names as long as ids.
        what = ["GEOADD", "bench:geo", *["__rand_int__e-7"] * 2, "00000000-0000-4000-8000-__rand_int__"]
        output = subprocess.run(
            ["redis-benchmark", *where, *how, *what], check=True, capture_output=True, text=True
        ).stdout
        (row,) = csv.DictReader(output.splitlines())
        return float(row["rps"])
