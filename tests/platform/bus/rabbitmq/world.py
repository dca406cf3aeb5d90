"""The queues of one test, with unique names: a name that was just deleted cannot always be reused."""

from dataclasses import replace
from uuid import UUID, uuid4

from catraca.platform.bus import Delivery, Headers, Message, Queue, Subscription, Topology
from catraca.platform.bus.rabbitmq import RabbitMqBus
from catraca.platform.ids import new_id
from tests.rabbitmq import RabbitMq
from tests.servers import until


async def always() -> bool:
    return True


class World:
    """`first` and `second` get `ride.*`, `positions` is transient, `letters` is where dead letters end."""

    def __init__(self, broker: RabbitMq) -> None:
        self.broker = broker
        own = uuid4().hex[:8]
        self.exchange, self.dlx = f"events_{own}", f"dlx_{own}"
        common = {"role": "tester", "does": "nothing", "dead_letters_to": self.dlx}
        self.first = Queue(name=f"first_{own}", binds=("ride.*",), **common)
        self.second = Queue(name=f"second_{own}", binds=("ride.*",), **common)
        self.positions = Queue(name=f"positions_{own}", binds=("position",), transient_seconds=30, **common)
        self.letters = Queue(
            name=f"letters_{own}", binds=(self.dlx,), role="tester", does="", dead_letters_to=None
        )
        self.topology = Topology(
            exchanges={self.exchange: ("ride.requested", "position", "nobody.listens"), self.dlx: ()},
            queues=(self.first, self.second, self.positions, self.letters),
            retry_delays_seconds=(0.2,),
        )
        self._opened: list[RabbitMqBus | Subscription] = []

    def bus(self, **changes: object) -> RabbitMqBus:
        """A bus with this topology and the given changes, as another process would open it."""
        self.topology = replace(self.topology, **changes)
        bus = RabbitMqBus(self.broker.url, self.topology)
        self._opened.append(bus)
        return bus

    async def subscribe(self, bus: RabbitMqBus, queue: Queue) -> Subscription:
        subscription = await bus.subscribe(queue, when_ready=always)
        self._opened.append(subscription)
        return subscription

    def message(
        self, key: str = "ride.requested", *, about: UUID | None = None, seq: int = 1, body: bytes = b"{}"
    ) -> Message:
        headers = Headers(aggregate_id=about or new_id(), seq=seq, round=2, trace="a-request")
        return Message(id=new_id(), exchange=self.exchange, key=key, body=body, headers=headers)

    async def left(self, *subscriptions: Subscription) -> dict[str, int]:
        """The depth of each queue after closing these consumers, which returns their unsettled messages."""
        for subscription in subscriptions:
            await subscription.close()
        return dict(await self.bus().depths())

    async def close(self) -> None:
        for opened in reversed(self._opened):
            await opened.close()


async def take(subscription: Subscription, count: int) -> list[Delivery]:
    """Wait for this many deliveries and return them unsettled."""
    taken: list[Delivery] = []

    async def enough() -> bool:
        taken.extend(await subscription.next(count - len(taken)))
        return len(taken) == count

    await until(enough)
    return taken
