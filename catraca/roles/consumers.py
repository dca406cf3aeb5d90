"""Which queues are handled, and the consumers of one role's queues."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from catraca.domains.analytics import AlertRule
from catraca.domains.analytics import handlers as analytics_handlers
from catraca.domains.audit import handlers as audit_handlers
from catraca.domains.billing import BillingRules
from catraca.domains.billing.charges import handlers as charge_handlers
from catraca.domains.dead_letters.letters import handlers as dead_letter_handlers
from catraca.domains.location import ShownPosition
from catraca.domains.location.positions.handlers import tracking
from catraca.domains.location.positions.model import encode_positions
from catraca.domains.location.positions.service import Deliver
from catraca.domains.matching import Matcher
from catraca.domains.matching.search import handlers as matching_handlers
from catraca.domains.notifications import NOTIFICATIONS_CHANNEL, POSITIONS_CHANNEL, Notifier
from catraca.domains.notifications.messages import handlers as notification_handlers
from catraca.domains.notifications.push import handlers as push_handlers
from catraca.domains.notifications.push.service import PushSender
from catraca.domains.onboarding import Seal
from catraca.domains.onboarding import handlers as onboarding_handlers
from catraca.domains.onboarding.handlers import Welcome
from catraca.domains.people.email_changes import handlers as email_handlers
from catraca.domains.people.email_changes.handlers import EmailLetters
from catraca.domains.people.email_changes.model import EmailCodes
from catraca.events import EVENTS, SIGN_UP_EXCHANGE, SIGN_UP_QUEUE, TOPOLOGY
from catraca.platform import redis_pubsub
from catraca.platform.bus import QueueHandlers, QueueWorker, Topology, TopologyRefused, check_topology
from catraca.platform.bus.handlers import AnyHandlers
from catraca.platform.event import Event, key_of
from catraca.platform.mail import Mailer
from catraca.platform.web_push import Pusher, PushHosts, PushKey
from catraca.roles import ROLES
from catraca.roles.domain_rules import alert_rule, billing_rules, matcher_of
from catraca.roles.parts import Parts
from catraca.roles.runner import Life, all_of


def _mailer(parts: Parts) -> Mailer | None:
    mail = parts.settings.onboarding
    if mail.mail_url is None:
        return None
    return Mailer(mail.mail_url, sender=mail.mail_from, needs_tls=mail.needs_tls())


def _welcome(parts: Parts) -> Welcome | None:
    settings, mailer = parts.settings, _mailer(parts)
    if mailer is None or settings.onboarding.password_page_url is None:
        return None
    return Welcome(
        mailer=mailer,
        seal=Seal(settings.signing_secret()),
        password_page_url=settings.onboarding.password_page_url,
        link_lifetime=settings.people.password_link_ttl,
    )


def _email_letters(parts: Parts) -> EmailLetters | None:
    mailer = _mailer(parts)
    if mailer is None:
        return None
    return EmailLetters(mailer=mailer, codes=EmailCodes(parts.settings.signing_secret()))


def _notifier(parts: Parts) -> Notifier:
    return Notifier(
        lambda payload: redis_pubsub.publish(parts.redis, NOTIFICATIONS_CHANNEL, payload),
        currency=parts.settings.fares.currency,
        pushes=parts.settings.notifications.push_contact is not None,
    )


def _push_sender(parts: Parts) -> PushSender | None:
    settings = parts.settings.notifications
    if settings.push_contact is None:
        return None
    key = PushKey(parts.settings.signing_secret(), contact=settings.push_contact)
    return PushSender(parts.database, Pusher(key, PushHosts(settings.push_hosts)))


def _show_to_sockets(parts: Parts) -> Deliver:
    async def show(positions: Sequence[ShownPosition]) -> None:
        await redis_pubsub.publish(parts.redis, POSITIONS_CHANNEL, encode_positions(positions))

    return show


def _matcher(parts: Parts) -> Matcher:
    return matcher_of(parts.settings, parts.redis)


def _alert_rule(parts: Parts) -> AlertRule:
    return alert_rule(parts.settings.analytics)


def _billing_rules(parts: Parts) -> BillingRules:
    return billing_rules(parts.settings)


Need = Callable[[Parts], object]

# Every handled queue, with what its handlers need. Queues and keys are known without settings.
HANDLERS: tuple[tuple[AnyHandlers, *tuple[Need, ...]], ...] = (
    (audit_handlers.handles,),
    (dead_letter_handlers.handles,),
    (dead_letter_handlers.sign_up_handles,),
    (onboarding_handlers.sign_ups,),
    (onboarding_handlers.welcomes, _welcome),
    (email_handlers.handles, _email_letters),
    *((one, _matcher) for one in matching_handlers.HANDLERS),
    *((one, _notifier) for one in notification_handlers.HANDLERS),
    (push_handlers.handles, _push_sender),
    (charge_handlers.handles, _billing_rules),
    *((one, _alert_rule) for one in analytics_handlers.HANDLERS),
    (tracking, _show_to_sockets),
)


def declared_handlers() -> list[AnyHandlers]:
    return [handlers for handlers, *_ in HANDLERS]


def bound_handlers(parts: Parts) -> list[QueueHandlers[Any]]:
    """The handlers of every queue, ready to run."""
    return [handlers.bind(*(need(parts) for need in needs)) for handlers, *needs in HANDLERS]


def check_wiring(
    topology: Topology = TOPOLOGY,
    events: tuple[type[Event], ...] = EVENTS,
    handlers: Iterable[AnyHandlers] | None = None,
) -> None:
    """Refuse to start if an event would reach no handler, before anything is published."""
    strays = [queue for queue in topology.queues if queue.role not in ROLES]
    if strays:
        known = ", ".join(ROLES)
        raise TopologyRefused(
            "\n".join(
                f"{queue.name} is for role {queue.role}, which does not exist: name one of {known}."
                for queue in strays
            )
        )
    check_topology(
        topology,
        published={key_of(kind): kind.exchange for kind in events} | {SIGN_UP_QUEUE: SIGN_UP_EXCHANGE},
        handled={one.queue: one.keys for one in handlers or declared_handlers()},
    )


async def consume(parts: Parts, role: str, life: Life) -> None:
    """Run the consumers of this role's queues until the process stops."""
    by_queue = {one.queue: one for one in bound_handlers(parts)}
    workers = [
        QueueWorker(
            queue,
            by_queue[queue.name],
            topology=parts.topology,
            transport=parts.bus,
            database=parts.database,
            slots=parts.hands,
        )
        for queue in parts.topology.queues
        if queue.role == role
    ]
    await all_of(life.stopping.wait(), *(worker.run(life.stopping) for worker in workers))
