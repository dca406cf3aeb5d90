"""This machine: port, state folder, disk, Python, variables, proxies."""

import os
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryFile

from catraca.roles.doctor.findings import Finding, ok, problem, warning
from catraca.roles.listener import ListenFailed, callable_address, fetch, open_listener
from catraca.settings import GROUP_OF, Settings, variable_of

ASK_SECONDS = 2.0
OLDEST_PYTHON = (3, 11)
DISK_WARNING_BYTES = 1024**3
DISK_PROBLEM_BYTES = 100 * 1024**2


async def check_port(settings: Settings) -> list[Finding]:
    name = f"Port {settings.process.port}"
    try:
        open_listener(settings.process.host, settings.process.port).close()
    except ListenFailed as failure:
        remedy = "Stop it, or choose another with CATRACA_PORT."
        if not failure.taken:
            return [problem(name, f"cannot be opened on {settings.process.host}", remedy)]
        if await _is_catraca(callable_address(settings.process.host, settings.process.port)):
            return [ok(name, "Catraca answers there")]
        return [problem(name, f"taken by another program at {settings.process.host}", remedy)]
    return [ok(name, "free")]


async def _is_catraca(address: str) -> bool:
    answer = await fetch(address, "/livez", seconds=ASK_SECONDS)
    return b'{"status":"alive"}' in answer and b"\r\nx-request-id:" in answer.lower()


async def check_state_folder(settings: Settings) -> list[Finding]:
    folder = settings.process.state_dir.resolve()
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    return [_writable(folder, nearest), judge_disk(shutil.disk_usage(nearest).free, nearest)]


def _writable(folder: Path, nearest: Path) -> Finding:
    name, remedy = "State folder", "Run as its owner, or choose another with CATRACA_STATE_DIR."
    if nearest != folder:
        if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
            return ok(name, f"{folder} will be made")
        return problem(name, f"{folder} cannot be made", remedy)
    try:
        with TemporaryFile(dir=folder):
            return ok(name, f"{folder} is writable")
    except OSError as error:
        return problem(name, f"{folder} is not writable ({(error.strerror or 'unknown').lower()})", remedy)


def judge_disk(free_bytes: int, folder: Path) -> Finding:
    name, found = "Disk", f"{free_bytes / 1024**3:.1f} GB free at {folder}"
    remedy = "Free some space, or move the state folder with CATRACA_STATE_DIR."
    if free_bytes < DISK_PROBLEM_BYTES:
        return problem(name, found, remedy)
    return warning(name, found, remedy) if free_bytes < DISK_WARNING_BYTES else ok(name, found)


async def check_python(_: Settings) -> list[Finding]:
    found = f"version {sys.version.partition(' ')[0]}"
    if sys.version_info < OLDEST_PYTHON:
        return [problem("Python", found, "Catraca needs 3.11 or newer: rebuild .venv with a newer one.")]
    return [ok("Python", found)]


async def check_names(_: Settings) -> list[Finding]:
    known = {variable_of(name) for name in GROUP_OF}
    strays = sorted(name for name in os.environ if name.startswith("CATRACA_") and name not in known)
    if strays:
        return [warning("Settings", f"unknown: {', '.join(strays)}", "Correct the name, or unset it.")]
    return [ok("Settings", "every CATRACA_ variable is known")]


async def check_proxies(settings: Settings) -> list[Finding]:
    name = "Trusted proxies"
    if any(network.prefixlen == 0 for network in settings.http.trusted_proxies):
        found = "all addresses are trusted: a caller can fake its address and avoid rate limits"
        remedy = "Name only your own proxies in CATRACA_TRUSTED_PROXIES."
        judge = problem if settings.process.environment == "production" else warning
        return [judge(name, found, remedy)]
    return [ok(name, ", ".join(map(str, settings.http.trusted_proxies)) or "none")]
