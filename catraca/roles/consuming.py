"""Which handlers there are, and the consumers of one role's queues."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, TypedDict

from catraca.domains.analytics import handlers as analytics_handlers
from catraca.domains.audit import handlers as audit_handlers
from catraca.domains.dead_letters import handlers as dead_letter_handlers
from catraca.domains.location import ShownPosition, encode_positions
from catraca.domains.location import handlers as location_handlers
from catraca.domains.matching.search.handlers import matching_handlers
from catraca.domains.notifications import NOTIFICATIONS_CHANNEL, POSITIONS_CHANNEL, Notifier
from catraca.domains.notifications.messages.handlers import notification_handlers
from catraca.domains.notifications.push.handlers import push_handlers
from catraca.domains.onboarding import Seal
from catraca.domains.onboarding import handlers as onboarding_handlers
from catraca.domains.onboarding.handlers import Welcome
from catraca.events import EVENTS, SIGN_UP_EXCHANGE, SIGN_UP_QUEUE, TOPOLOGY
from catraca.platform import redis_pubsub
from catraca.platform.bus import (
    Consumer,
    Queue,
    QueueHandlers,
    Topology,
    TopologyRefused,
    Transport,
    check_topology,
)
from catraca.platform.bus.batch_worker import BatchHandlers, Batching
from catraca.platform.database import Database
from catraca.platform.event import Event, key_of
from catraca.platform.mail import Mailer
from catraca.platform.redis_client import RedisClient
from catraca.platform.web_push import Pusher, PushKey
from catraca.roles import ROLES
from catraca.roles.domain_rules import alert_rule, matcher_of
from catraca.roles.parts import Parts
from catraca.roles.runner import Life, all_of
from catraca.settings import Settings

HANDLERS: tuple[QueueHandlers, ...] = (
    audit_handlers.handles,
    dead_letter_handlers.handles,
    dead_letter_handlers.sign_up_handles,
)
# For queues whose messages are written in batches.
BATCH_HANDLERS: tuple[BatchHandlers[Any], ...] = (onboarding_handlers.handles,)


def handlers_of(settings: Settings, redis: RedisClient) -> tuple[QueueHandlers | BatchHandlers[Any], ...]:
    """Everything there is a consumer for."""
    return (
        *HANDLERS,
        *matching_handlers(matcher_of(settings, redis)),
        onboarding_handlers.welcome_handlers(_welcome(settings)),
        *notification_handlers(_notifier(settings, redis)),
        push_handlers(_pusher(settings)),
        *analytics_handlers.make_handlers(alert_rule(settings.analytics)),
        location_handlers.tracking_handlers(_show_to_sockets(redis)),
        *BATCH_HANDLERS,
    )


def _welcome(settings: Settings) -> Welcome | None:
    if settings.onboarding.mail_url is None or settings.onboarding.password_page_url is None:
        return None
    return Welcome(
        mailer=Mailer(settings.onboarding.mail_url, sender=settings.onboarding.mail_from),
        seal=Seal(settings.signing_secret()),
        password_page_url=settings.onboarding.password_page_url,
        link_lifetime=settings.people.password_link_ttl,
    )


def _notifier(settings: Settings, redis: RedisClient) -> Notifier:
    return Notifier(
        lambda payload: redis_pubsub.publish(redis, NOTIFICATIONS_CHANNEL, payload),
        currency=settings.fares.currency,
        pushes=settings.notifications.push_contact is not None,
    )


def _pusher(settings: Settings) -> Pusher | None:
    if settings.notifications.push_contact is None:
        return None
    return Pusher(PushKey(settings.signing_secret(), contact=settings.notifications.push_contact))


def _show_to_sockets(redis: RedisClient) -> location_handlers.Show:
    async def show(positions: Sequence[ShownPosition]) -> None:
        await redis_pubsub.publish(redis, POSITIONS_CHANNEL, encode_positions(positions))

    return show


# The same, for those who only ask what is handled.
HANDLED = handlers_of(Settings.defaults(), RedisClient(None))


def check_wiring(
    topology: Topology = TOPOLOGY,
    events: tuple[type[Event], ...] = EVENTS,
    handlers: Iterable[QueueHandlers | BatchHandlers[Any]] = HANDLED,
) -> None:
    """Refuse to start with news that nobody would get, before anything is published."""
    # A planned queue may wait for a role that is yet to come.
    strays = [queue for queue in topology.live if queue.role not in ROLES]
    if strays:
        known = ", ".join(ROLES)
        raise TopologyRefused(
            "\n".join(
                f"{queue.name} is for role {queue.role}, which there is not: name one of {known}."
                for queue in strays
            )
        )
    check_topology(
        topology,
        published={key_of(kind): kind.exchange for kind in events} | {SIGN_UP_QUEUE: SIGN_UP_EXCHANGE},
        handled={one.queue: one.keys for one in handlers},
    )


async def consume(parts: Parts, role: str, life: Life) -> None:
    """Run the consumers of every live queue of this role until told to stop."""
    by_queue = {one.queue: one for one in handlers_of(parts.settings, parts.redis)}
    consumers = [
        _consumer(parts, queue, by_queue[queue.name]) for queue in parts.topology.live if queue.role == role
    ]
    await all_of(life.stopping.wait(), *(consumer.run(life.stopping) for consumer in consumers))


def _consumer(
    parts: Parts, queue: Queue, handlers: QueueHandlers | BatchHandlers[Any]
) -> Consumer | Batching[Any]:
    shared = _Shared(topology=parts.topology, transport=parts.bus, database=parts.database, hands=parts.hands)
    if isinstance(handlers, BatchHandlers):
        return Batching(queue, handlers, **shared)
    return Consumer(queue, handlers, **shared)


class _Shared(TypedDict):
    topology: Topology
    transport: Transport
    database: Database
    hands: asyncio.Semaphore
