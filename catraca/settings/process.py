"""One process: where it listens, what it writes to disk and to the log."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from catraca.settings.values import Group, is_loopback


class ProcessSettings(Group):
    environment: Literal["development", "production"] | None = Field(
        default=None,
        description="`production` refuses a weak or missing secret, keys without encryption, and demo data;"
        " `development` allows demo data; unset: demo data only on a loopback address and in the embedded"
        " database.",
    )
    host: str = Field(default="127.0.0.1", description="The address the API listens on.")
    port: int = Field(default=8000, ge=1, le=65535, description="The port the API listens on.")
    workers: int = Field(default=1, ge=1, le=64, description="Number of processes that run the chosen roles.")
    state_dir: Path = Field(
        default=Path("var"), description="Folder of embedded servers, logs, metrics and a generated secret."
    )
    drain_delay: float = Field(
        default=0,
        ge=0,
        le=60,
        description="Seconds between 'not ready' and closing the port, for load balancers to notice.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    def is_local(self) -> bool:
        """True if only this machine can reach the API."""
        return is_loopback(self.host)
