"""Random failures of processes and servers during a storm, one after another."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from signal import SIGKILL

from catraca.platform.pauses import within
from catraca.roles.runner import all_of
from tests.rabbitmq import RabbitMq
from tests.servers import until
from tests.storms.fleet import StormFleet

REDIS_AWAY_SECONDS = (0.1, 2)


@dataclass
class Failures:
    here: StormFleet
    broker: RabbitMq | None
    chance: random.Random
    over: asyncio.Event
    happened: Counter[str] = field(default_factory=Counter)
    # A process that starts needs PostgreSQL, and no supervisor starts it again here.
    _postgres_stands: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def happen(self, counts: Mapping[str, int], *, within_seconds: float) -> None:
        """Run failures of processes and of servers concurrently, so that both can happen at once."""
        names = [name for name, count in counts.items() for _ in range(count)]
        if self.broker is None:
            names = [name for name in names if name != "RabbitMQ killed"]
        servers = [name for name in names if name in self._servers]
        processes = [name for name in names if name not in self._servers]
        await all_of(*(self._play(deck, within_seconds) for deck in (servers, processes)))

    async def _play(self, deck: list[str], seconds: float) -> None:
        self.chance.shuffle(deck)
        for name in deck:
            pause_seconds = seconds / len(deck) * self.chance.uniform(0.5, 1.4)
            if await within(pause_seconds, self.over):
                return
            await (self._servers[name]() if name in self._servers else self._kill_process(name))
            self.happened[name] += 1

    @property
    def _servers(self) -> dict[str, Callable[[], Awaitable[None]]]:
        return {
            "Redis flushed": self._flush_redis,
            "Redis killed": self._kill_redis,
            "PostgreSQL killed": self._kill_postgres,
            "RabbitMQ killed": self._kill_broker,
        }

    async def _flush_redis(self) -> None:
        await self.here.redis.command("FLUSHALL")

    async def _kill_redis(self) -> None:
        self.here.redis.kill()
        await asyncio.sleep(self.chance.uniform(*REDIS_AWAY_SECONDS))
        await self.here.redis.start()

    async def _kill_postgres(self) -> None:
        async with self._postgres_stands:
            await self.here.postgres.kill()
            await self.here.postgres.start()

    async def _kill_broker(self) -> None:
        assert self.broker is not None
        self.broker.kill()
        self.broker.start()
        await until(self.broker.answers)

    async def _kill_process(self, role: str) -> None:
        async with self._postgres_stands:
            if role == "api":
                api = self.chance.choice(self.here.apis)
                await api.kill()
                await api.start()
            else:
                lineup = self.here.office.lineup
                places = [place for place, roles in enumerate(lineup) if role in roles]
                await self.here.office.replace(self.chance.choice(places), SIGKILL)
