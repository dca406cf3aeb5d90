"""All checks of the installation, and all invariants of its data."""

import asyncio

from catraca.domains import (
    analytics,
    billing,
    communities,
    geofences,
    location,
    matching,
    notifications,
    onboarding,
    people,
    scheduling,
)
from catraca.domains.rides.invariants import INVARIANTS as RIDE_INVARIANTS
from catraca.platform.database import Database
from catraca.platform.database.event_invariants import EVENT_INVARIANTS
from catraca.platform.database.invariants import (
    INVARIANT_LIMITS,
    PLATFORM_INVARIANTS,
    Rule,
    Verdict,
    check_invariants,
)
from catraca.platform.database.timers import TIMER_INVARIANTS
from catraca.roles.doctor.access import check_identity_provider, check_secret
from catraca.roles.doctor.bus import check_bus
from catraca.roles.doctor.findings import Check, Finding, problem
from catraca.roles.doctor.machine import (
    check_names,
    check_port,
    check_proxies,
    check_python,
    check_state_folder,
)
from catraca.roles.doctor.postgres import check_postgres
from catraca.roles.doctor.rabbitmq import check_rabbitmq
from catraca.roles.doctor.redis import check_redis
from catraca.roles.doctor.workers import check_workers
from catraca.settings import Settings

# Above the limits that each check has: only a defective check reaches it.
CHECK_SECONDS = 4.0

CHECKS: dict[str, Check] = {
    "Python": check_python,
    "Settings": check_names,
    "State folder": check_state_folder,
    "Port": check_port,
    "Secret": check_secret,
    "Identity provider": check_identity_provider,
    "Trusted proxies": check_proxies,
    "PostgreSQL": check_postgres,
    "Workers": check_workers,
    "Redis": check_redis,
    "RabbitMQ": check_rabbitmq,
    "Bus": check_bus,
}
# The invariants of the platform and of every domain.
RULES: tuple[Rule, ...] = (
    *PLATFORM_INVARIANTS,
    *EVENT_INVARIANTS,
    *TIMER_INVARIANTS,
    *people.INVARIANTS,
    *communities.INVARIANTS,
    *onboarding.INVARIANTS,
    *billing.INVARIANTS,
    *RIDE_INVARIANTS,
    *location.INVARIANTS,
    *notifications.INVARIANTS,
    *geofences.INVARIANTS,
    *scheduling.INVARIANTS,
    *matching.INVARIANTS,
    *analytics.INVARIANTS,
)


async def run_checks(settings: Settings, checks: dict[str, Check] = CHECKS) -> list[Finding]:
    """Run all checks concurrently; a check that hangs or fails becomes a finding."""
    found = await asyncio.gather(*(_bounded(name, check, settings) for name, check in checks.items()))
    return [finding for findings in found for finding in findings]


async def _bounded(name: str, check: Check, settings: Settings) -> list[Finding]:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await check(settings)
    except TimeoutError:
        return [problem(name, f"could not be checked within {CHECK_SECONDS:.0f} s", "Run the doctor again.")]
    except Exception as error:  # noqa: BLE001 - the doctor must work when anything else is broken
        remedy = "This is a defect of Catraca: please report it."
        return [problem(name, f"could not be checked ({type(error).__name__})", remedy)]


async def check_rules(settings: Settings, rules: tuple[Rule, ...] = RULES) -> list[Verdict]:
    """Check all invariants against the live database."""
    if settings.servers.database_url is None:
        return [Verdict(rule, "unchecked", ("no database",)) for rule in rules]
    database = await Database.open(settings.servers.database_url, limits=INVARIANT_LIMITS)
    try:
        return await check_invariants(database, rules)
    finally:
        await database.close()
