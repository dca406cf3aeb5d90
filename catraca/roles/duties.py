"""What each queue has to say of its dead letters: which bodies it can read, and whom a discard concerns."""

from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

from catraca.domains import onboarding
from catraca.domains.analytics import handlers as analytics_handlers
from catraca.domains.dead_letters import Duties, OpenLetter, QueueDuty
from catraca.domains.notifications.messages import handlers as notification_handlers
from catraca.domains.onboarding import BadSignUp
from catraca.domains.onboarding import handlers as onboarding_handlers
from catraca.events import SIGN_UP_QUEUE
from catraca.platform.bus import QueueHandlers, Topology
from catraca.platform.database import Db
from catraca.roles import consuming


def queue_duties(topology: Topology) -> Duties:
    """Of the queues that take replays: they are consumed here, and what dies there is kept."""
    dying = {queue.name for queue in topology.live if queue.dead_letters_to is not None}
    ordinary = {
        one.queue: QueueDuty(check=one.check)
        for one in consuming.HANDLED
        if isinstance(one, QueueHandlers) and one.queue in dying
    }
    figures = {queue: QueueDuty(check=analytics_handlers.reader.check) for queue in analytics_handlers.EVENTS}
    told = {
        queue: QueueDuty(check=notification_handlers.reader.check) for queue in notification_handlers.EVENTS
    }
    return {
        **ordinary,
        **figures,
        **told,
        SIGN_UP_QUEUE: QueueDuty(onboarding_handlers.check_body, _reject_sign_ups),
    }


async def _reject_sign_ups(db: Db, letters: Sequence[OpenLetter]) -> None:
    for letter in letters:
        sign_up_id = _sign_up_of(letter)
        if sign_up_id is not None:
            await onboarding.discard_sign_up(db, sign_up_id, request_id=letter.message_id)


def _sign_up_of(letter: OpenLetter) -> UUID | None:
    """Whose it is; None for what never was a sign-up, so that nobody waits for it."""
    with suppress(BadSignUp):
        return onboarding.read_sign_up(letter.body, request_id=letter.message_id).id
    return letter.headers.aggregate_id
