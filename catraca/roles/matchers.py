"""Matching as the settings want it."""

from catraca.domains.matching import Matcher, Rules, Terms
from catraca.platform.redis_client import RedisClient
from catraca.settings import Settings


def matcher_of(settings: Settings, redis: RedisClient) -> Matcher:
    return Matcher(
        redis,
        Terms(
            rules=Rules(
                offers_at_once=settings.matching.offers_at_once,
                max_attempts_per_search=settings.matching.max_attempts_per_search,
                search_retry_interval=settings.matching.search_retry_interval,
                initial_radius_meters=settings.matching.initial_search_radius,
                max_radius_meters=settings.matching.max_search_radius,
                radius_increment_meters=settings.matching.radius_increment,
            ),
            offer_ttl=settings.rides.driver_response_timeout,
            offer_lease=settings.offer_lease,
            fresh=settings.location.presence_timeout,
        ),
    )
