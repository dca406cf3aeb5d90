"""Finds the embedded servers of a running `catraca up` by its state folder."""

from dataclasses import dataclass
from pathlib import Path

from catraca.platform.embedded.postgres import NAME, SETTINGS

# The line of postmaster.pid with the folder of the server's socket.
SOCKET_FOLDER_LINE = 4


@dataclass(frozen=True, slots=True)
class RunningServers:
    """URLs of servers that run, or ran when their machine or parent was killed."""

    database_url: str | None = None
    redis_url: str | None = None


def find_running(state_dir: Path) -> RunningServers:
    """The servers of a state folder; none if no embedded server runs there or we may not read it."""
    try:
        lines = (state_dir / "postgres" / "postmaster.pid").read_text().splitlines()
    except OSError:
        return RunningServers()
    run = Path(lines[SOCKET_FOLDER_LINE]) if len(lines) > SOCKET_FOLDER_LINE else None
    if run is None or not (run / f".s.PGSQL.{SETTINGS['port']}").exists():
        return RunningServers()
    redis = run / "redis.sock"
    return RunningServers(
        database_url=f"postgresql://{NAME}@/{NAME}?host={run}&port={SETTINGS['port']}",
        redis_url=f"unix://{redis}?db=0" if redis.exists() else None,
    )
