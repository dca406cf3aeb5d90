"""What the commands on dead letters share: which letters are meant, and the transaction they work in."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from catraca.cli.database import find_settings, need_database, on_database
from catraca.cli.failures import FAILED, REFUSED, expected_failures, fail

if TYPE_CHECKING:
    from catraca.domains.dead_letters import Duties, Filter
    from catraca.platform.database import Db
    from catraca.platform.errors import Refusal

T = TypeVar("T")
STATES = ("waiting", "replayed", "discarded", "any")


def filter_of(
    queue: str | None,
    reason: str | None,
    key: str | None,
    message_id: UUID | None,
    died_after: str | None,
    died_before: str | None,
    *,
    state: str = "waiting",
) -> "Filter":
    from catraca.domains.dead_letters import Filter

    if state not in STATES:
        fail(f"--state is one of {', '.join(STATES)}", REFUSED)
    given: Any = None if state == "any" else state
    return Filter(
        state=given,
        queue=queue,
        reason=reason,
        key=key,
        message_id=message_id,
        died_after=moment_of(died_after),
        died_before=moment_of(died_before),
    )


def moment_of(text: str | None) -> datetime | None:
    """Without a zone it is this machine's time."""
    try:
        return None if text is None else datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        fail(f"{text} is not a time, such as 2031-05-30T14:00", REFUSED)


def refuse_both(wanted: "Filter", *, everything: bool) -> None:
    if everything or not wanted.means_everything:
        fail("give an id or a filter, not both", REFUSED)


def run(work: "Callable[[Db, Duties], Awaitable[T]]") -> T:
    """In one transaction on the database; what is refused becomes a line in plain words."""
    import asyncio

    from catraca.platform.errors import Refusal

    with expected_failures():
        from catraca.events import TOPOLOGY
        from catraca.platform.telemetry import configure_logging
        from catraca.roles.duties import queue_duties

        configure_logging("error")
        url = need_database(find_settings())
        try:
            return asyncio.run(on_database(url, lambda db: work(db, queue_duties(TOPOLOGY))))
        except Refusal as refusal:
            fail(_words(refusal), REFUSED if refusal.status == 422 else FAILED)


def _words(refusal: "Refusal") -> str:
    from catraca.platform.errors import NotFound
    from catraca.platform.texts import text, words

    if isinstance(refusal, NotFound):
        return "there is no such letter"
    if refusal.code == "dead_letter_filter_empty":
        return "say which letters you mean (--queue, --reason, ...), or --all"
    data = dict(refusal.data)
    if (reason := f"reasons.{data.get('reason')}") in words("en"):
        data["reason"] = text(reason, "en", data)
    return text(f"refusals.{refusal.code}", "en", data)
