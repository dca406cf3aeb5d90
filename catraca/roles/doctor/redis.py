"""Redis: Catraca works without it, only slower, so most findings are warnings."""

from catraca.platform.server_info import RedisFacts, Unreachable, ask_redis
from catraca.roles.doctor.findings import Finding, judge_clock, ok, problem, version_of, warning
from catraca.settings import Settings

OLDEST = (6, 2)
FULL_SHARE = 0.8
MEGABYTE = 1024 * 1024


async def check_redis(settings: Settings) -> list[Finding]:
    name, slower = "Redis", "Catraca works without it, slower."
    if settings.servers.redis_url is None:
        return [
            warning(
                name, "not set, and none runs here", f"Run `catraca up`, or give CATRACA_REDIS_URL. {slower}"
            )
        ]
    try:
        facts = await ask_redis(settings.servers.redis_url)
    except Unreachable as error:
        return [
            warning(name, f"cannot be reached: {error}", f"Start it, or correct CATRACA_REDIS_URL. {slower}")
        ]
    return judge_redis(facts)


def judge_redis(facts: RedisFacts) -> list[Finding]:
    return [_version(facts), _eviction(facts), _memory(facts), judge_clock("Clock of Redis", facts.skew)]


def _version(facts: RedisFacts) -> Finding:
    if version_of(facts.version) < OLDEST:
        return problem("Redis", f"version {facts.version}", "Catraca needs 6.2 or newer: upgrade it.")
    if facts.is_replica:
        return warning(
            "Redis", "this server is a read-only replica", "Name the primary in CATRACA_REDIS_URL."
        )
    return ok("Redis", f"version {facts.version}")


def _eviction(facts: RedisFacts) -> Finding:
    if facts.eviction_policy != "noeviction":
        return warning(
            "Eviction",
            f"{facts.eviction_policy}: a full Redis drops locks and rate limits",
            "Set maxmemory-policy noeviction, and give Catraca a Redis of its own.",
        )
    return ok("Eviction", "noeviction: a full Redis refuses writes")


def _memory(facts: RedisFacts) -> Finding:
    used = f"{facts.used_bytes / MEGABYTE:.0f} MB used"
    if not facts.limit_bytes:
        return ok("Memory of Redis", f"{used}, no limit set")
    found = f"{used} of {facts.limit_bytes / MEGABYTE:.0f} MB"
    if facts.used_bytes > FULL_SHARE * facts.limit_bytes:
        return warning("Memory of Redis", found, "Raise maxmemory, or give Catraca a Redis of its own.")
    return ok("Memory of Redis", found)
