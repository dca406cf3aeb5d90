"""Load from `wrk`: a bounded number of connections for a bounded time, on loopback only."""

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from bench.processor import noting

KEYED_POST = """
local count = 0
local run = tostring(os.time()) .. "-" .. tostring(math.random(1, 1000000000))
request = function()
  count = count + 1
  wrk.headers["Idempotency-Key"] = run .. "-" .. count
  return wrk.format("POST", nil, wrk.headers, '{"ok":true}')
end
"""
PLAIN_POST = KEYED_POST.replace('  wrk.headers["Idempotency-Key"] = run .. "-" .. count\n', "")
# Each request is of a new user, with its own key.
SIGN_UP = KEYED_POST.replace(
    """'{"ok":true}'""",
    """'{"name":"Pessoa Medida","email":"' .. run .. "-" .. count .. '@example.com"}'""",
)


@dataclass(frozen=True, slots=True)
class HttpLoad:
    """One kind of request, sent as fast as the server answers."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)
    script: str | None = None

    def per_second(self, *, seconds: int, connections: int, folder: Path) -> float:
        """Returns answers per second; raises if one answer was wrong."""
        # A request without an answer after the timeout is an error.
        command = ["wrk", "-t1", "--timeout", "10s", f"-c{connections}", f"-d{seconds}"]
        for name, value in self.headers.items():
            command += ["-H", f"{name}: {value}"]
        if self.script:
            path = folder / f"load-{abs(hash(self.script))}.lua"
            path.write_text(self.script)
            command += ["-s", str(path)]
        with noting(folder, self.url):
            done = subprocess.run([*command, self.url], check=False, capture_output=True, text=True)
        if done.returncode:  # the script has no more requests, for example
            raise RuntimeError(f"wrk failed: {done.stderr.strip()}")
        output = done.stdout
        if wrong := re.search(r"Non-2xx or 3xx responses: (\d+)|Socket errors: .*", output):
            raise RuntimeError(f"{self.url}: {wrong[0]}")
        found = re.search(r"Requests/sec:\s+([\d.]+)", output)
        if found is None:
            raise RuntimeError(f"wrk printed no rate:\n{output}")
        return float(found[1])
