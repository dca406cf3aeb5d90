"""Settings as the commands use them: with the servers of a running `catraca up` where none are given."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catraca.settings import Settings


def find_settings() -> "Settings":
    """The settings; addresses that are missing come from the embedded servers running in the state folder."""
    from catraca.platform.embedded.running import find_running
    from catraca.settings import Settings

    settings = Settings()
    if settings.database_url is not None:
        return settings
    running = find_running(settings.state_dir)
    return settings.model_copy(
        update={
            "database_url": running.database_url,
            "redis_url": settings.redis_url or running.redis_url,
        }
    )


def need_database(settings: "Settings") -> str:
    """The database's address, or an end with the two ways to have one."""
    from catraca.cli.failures import REFUSED, fail

    return settings.database_url or fail(
        f"no database: give CATRACA_DATABASE_URL, or run `catraca up` (none runs in {settings.state_dir})",
        REFUSED,
    )
