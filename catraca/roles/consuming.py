"""Which handlers there are, and the consumers of one role's queues."""

from catraca.domains.audit import handlers as audit_handlers
from catraca.domains.dead_letters import handlers as dead_letter_handlers
from catraca.events import EVENTS, TOPOLOGY
from catraca.platform.bus import Consumer, QueueHandlers, Topology, TopologyRefused, check_topology
from catraca.platform.event import Event, key_of
from catraca.roles import ROLES
from catraca.roles.parts import Parts
from catraca.roles.runner import Life, all_of

HANDLERS: tuple[QueueHandlers, ...] = (audit_handlers.handles, dead_letter_handlers.handles)


def check_wiring(
    topology: Topology = TOPOLOGY,
    events: tuple[type[Event], ...] = EVENTS,
    handlers: tuple[QueueHandlers, ...] = HANDLERS,
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
        published={key_of(kind): kind.exchange for kind in events},
        handled={one.queue: one.keys for one in handlers},
    )


async def consume(parts: Parts, role: str, life: Life) -> None:
    """Run the consumers of every live queue of this role until told to stop."""
    by_queue = {one.queue: one for one in HANDLERS}
    consumers = [
        Consumer(
            queue,
            by_queue[queue.name],
            topology=parts.topology,
            transport=parts.bus,
            database=parts.database,
            hands=parts.hands,
        )
        for queue in parts.topology.live
        if queue.role == role
    ]
    await all_of(life.stopping.wait(), *(consumer.run(life.stopping) for consumer in consumers))
