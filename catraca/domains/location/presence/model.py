"""A driver's presence as values."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from catraca.domains.location.model import DriverId, Fault, Ping


@dataclass(frozen=True, slots=True)
class Presence:
    """A row of driver_presence; its position may be older than the one in Redis."""

    driver_id: DriverId
    online: bool
    since: datetime
    seen_at: datetime
    # Since `seen_at`, by the database's clock.
    silence: timedelta
    last: Ping | None


@dataclass(frozen=True, slots=True)
class OnlineDriver:
    """An online driver, as the patrol reads it. Durations are by the database's clock."""

    driver_id: DriverId
    silence: timedelta
    ping: Ping | None
    # Without an offer or a ride; None: the driver was busy at the last patrol.
    free_for: timedelta | None
    # The idle event of the present free time is published.
    idle_published: bool


@dataclass(frozen=True, slots=True)
class DriverStatus:
    """`fault` is the reason why the position sent with the status was not accepted."""

    online: bool
    since: datetime | None
    fault: Fault | None = None
