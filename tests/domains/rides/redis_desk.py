"""A desk whose API has a Redis of its own."""

from dataclasses import dataclass

from tests.domains.rides.desk import Desk
from tests.support.redis_server import PrivateRedis


@dataclass
class RedisDesk(Desk):
    server: PrivateRedis
