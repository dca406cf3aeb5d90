"""Pings over HTTP in lists, as a gateway of devices sends them; and what Redis alone could take."""

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
# More than are under way at a time, so that no driver's pings overtake each other.
LISTS = 200
DRIVERS = LISTS * PINGS_A_LIST
# Everybody goes to and fro: no ping is where the last one was, and none is too far from it.
STEPS_METERS = (0.0, 15.0)
# A guess, by which the number of commands fits the seconds asked for.
GEOADDS_A_SECOND = 250_000

# One line a list, without its moment: that is written in when it is sent.
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
    """Answers pings a second; a run in which one of them was not taken is no measurement."""

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
    """What became of all pings so far, as the server itself counts them."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = re.findall(r'^catraca_location_pings_total\{outcome="(\w+)"\} ([\d.e+]+)$', text, re.MULTILINE)
    return Counter({outcome: int(float(count)) for outcome, count in found})


@dataclass(frozen=True, slots=True)
class GeoaddLoad:
    """`redis-benchmark` moving as many members, a hundred commands at a time on one connection.

    A client in C, for redis-py is slower than Redis; and one connection, for more were no faster.
    """

    redis_url: str

    def per_second(self, *, seconds: int, connections: int, folder: Path) -> float:
        address = urlsplit(self.redis_url)
        count, members = GEOADDS_A_SECOND * seconds, DRIVERS
        where = ["-s", address.path, "--dbnum", parse_qs(address.query)["db"][0]]
        how = ["--csv", "-c", "1", "-P", str(PINGS_A_LIST), "-n", str(count), "-r", str(members)]
        # Anywhere within some hundred metres; names as long as ids are.
        what = ["GEOADD", "bench:geo", *["__rand_int__e-7"] * 2, "00000000-0000-4000-8000-__rand_int__"]
        output = subprocess.run(
            ["redis-benchmark", *where, *how, *what], check=True, capture_output=True, text=True
        ).stdout
        (row,) = csv.DictReader(output.splitlines())
        return float(row["rps"])
