"""Asking for a ride in a community, and confirming that drivers from elsewhere will do."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import UUID

from catraca.domains import communities, location, rides
from catraca.domains.communities import Community, CommunityFilter, Fences, Tier
from catraca.domains.fares import Tariff
from catraca.domains.geofences import store
from catraca.domains.geofences.errors import ConfirmationContradicted, NoCommunityHere
from catraca.domains.geofences.model import (
    Answer,
    Asked,
    Changes,
    Confirmation,
    ConfirmationId,
    Created,
    NeedsConfirmation,
    TokenMaker,
    hash_token,
)
from catraca.domains.geofences.service.outcomes import (
    CONFIRMATION_DUE,
    answer_again,
    expire_confirmation,
    record,
    refuse,
    settle,
    turn_away,
)
from catraca.domains.location import NearbyDriver, Search
from catraca.domains.people import UserId
from catraca.domains.rides import Ride, RideId, RideRequest
from catraca.platform.database import Db, timers
from catraca.platform.geo import Place, estimate_trip
from catraca.platform.ids import new_id
from catraca.platform.redis_client import RedisClient


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """As the settings want it."""

    # Else a community's ride is like any other.
    enabled: bool
    ttl: timedelta
    tariff: Tariff
    # For how long a driver is looked for, how far out, and how lately somebody must have been heard of.
    search: timedelta
    radius_meters: int
    fresh: timedelta


class Gate:
    """One process's hand in it."""

    def __init__(self, redis: RedisClient, fences: Fences, terms: Terms, tokens: TokenMaker) -> None:
        self._redis = redis
        self._fences = fences
        self._terms = terms
        self._tokens = tokens

    async def request_ride(self, db: Db, asked: Asked, *, passenger_id: UserId, by: UUID) -> Answer:
        """A ride; or, with nobody of the community's own there, the question whether others will do.

        Asked for again it is the same question, until its time is over.
        """
        if asked.type == "normal" or not self._terms.enabled:
            return Created(await self._open(db, asked.to_request(), passenger_id))
        found = (await self._fences.current(db)).at(asked.lat, asked.lng)
        if not found:
            raise NoCommunityHere
        community = found[0]
        at_home = await self._nearest(db, asked, passenger_id, frozenset({community.id}))
        if at_home is not None or not community.rules.fallback:
            return await self._open_at_home(db, asked, passenger_id, community, by=by)
        return await self._ask(db, asked, passenger_id, community, by=by)

    async def _open_at_home(
        self, db: Db, asked: Asked, passenger_id: UserId, community: Community, *, by: UUID
    ) -> Created:
        """Somebody is there now. If the passenger was asked before, that question is settled with it."""
        asked_before = await store.claim_by_request(
            db, asked, passenger_id=passenger_id, ride_id=RideId(new_id())
        )
        request = _community_request(asked, community, "home", priced_as="home")
        ride = await self._open(db, request, passenger_id, asked_before)
        if asked_before is not None:
            await settle(db, asked_before, ride, by=by)
        return Created(ride, at_home=True)

    async def _ask(
        self, db: Db, asked: Asked, passenger_id: UserId, community: Community, *, by: UUID
    ) -> NeedsConfirmation:
        tier, nearest = await self._next_tier(db, asked, passenger_id, community)
        lapsed_id = await store.lapsed_for(db, asked, passenger_id=passenger_id)
        if lapsed_id is not None:
            await expire_confirmation(db, lapsed_id)
        seconds = community.rules.confirmation_ttl_seconds
        confirmation_id = ConfirmationId(new_id())
        confirmation, is_new = await store.ask(
            db,
            confirmation_id,
            asked,
            passenger_id=passenger_id,
            token_hash=hash_token(self._tokens.token_of(confirmation_id)),
            community=community,
            tier=tier,
            ttl=self._terms.ttl if seconds is None else timedelta(seconds=seconds),
        )
        # Not before: whoever confirms the same question this moment is waited for by now.
        await rides.refuse_second_ride(db, passenger_id)
        if is_new:
            await timers.set_timer(db, CONFIRMATION_DUE, confirmation.id, due_at=confirmation.expires_at)
        else:
            community, nearest = await self._as_asked(db, confirmation)
        await record(db, "issued" if is_new else "repeated", confirmation, by=by)
        token = self._tokens.token_of(confirmation.id)
        return NeedsConfirmation(
            confirmation, token, self._changes(asked, community, confirmation.tier, nearest)
        )

    async def _as_asked(self, db: Db, confirmation: Confirmation) -> tuple[Community, NearbyDriver | None]:
        """The community as it was when the passenger was asked, which counts; and who is near by now."""
        community = await _community_of(db, confirmation)
        whose = communities.search_circles(community, confirmation.tier)[-1]
        nearest = await self._nearest(db, confirmation.asked, confirmation.passenger_id, whose)
        return community, nearest

    async def _next_tier(
        self, db: Db, asked: Asked, passenger_id: UserId, community: Community
    ) -> tuple[Tier, NearbyDriver | None]:
        """The nearest circle in which somebody is free; with nobody anywhere, the widest."""
        nearest: NearbyDriver | None = None
        tier: Tier = "home"
        for tier in community.rules.fallback:
            whose = communities.search_circles(community, tier)[-1]
            nearest = await self._nearest(db, asked, passenger_id, whose)
            if nearest is not None:
                break
        return tier, nearest

    def _changes(
        self, asked: Asked, community: Community, tier: Tier, nearest: NearbyDriver | None
    ) -> Changes:
        place = Place(asked.lat, asked.lng)
        way = None if nearest is None else estimate_trip(nearest.ping.place, place)
        return Changes(
            tier=tier,
            distance_meters=way and way.distance_meters,
            wait_seconds=way and way.duration_seconds,
            fare_cents=self._fare(asked, community, tier),
            home_fare_cents=self._fare(asked, community, "home"),
        )

    def _fare(self, asked: Asked, community: Community, tier: Tier) -> int:
        request = _community_request(asked, community, tier, priced_as=tier)
        fare = rides.quote_fare(request, self._terms.tariff)
        assert fare is not None, "a community's ride always has a fare"
        return fare

    async def confirm_ride(
        self, db: Db, token: str, said: Mapping[str, object], *, passenger_id: UserId, by: UUID
    ) -> Answer:
        """The one ride of this confirmation, however often and from wherever it is confirmed.

        Used counts before expired, so a late repeat still gets its ride. `said` is what the body says of the
        ride besides: it must be what was asked for. Gets the community's own driver if there is one by now.
        """
        token_hash, ride_id = hash_token(token), RideId(new_id())
        found = await store.find(db, token_hash, passenger_id=passenger_id)
        if found is None:
            return await turn_away(db, passenger_id, by=by)
        other = [name for name, value in said.items() if getattr(found.asked, name) != value]
        if other:
            return await refuse(db, ConfirmationContradicted(fields=other), found, by=by)
        if found.ride_id is None:
            claimed = await store.claim_by_token(db, token_hash, passenger_id=passenger_id, ride_id=ride_id)
            if claimed is not None:
                return await self._open_confirmed(db, claimed, by=by)
            # Somebody was faster, or it is too late; who was in time and has not ended yet is waited for.
            found = await store.find_settled(db, token_hash, passenger_id=passenger_id)
        if found is None:  # pruned a moment ago
            return await turn_away(db, passenger_id, by=by)
        return await answer_again(db, found, by=by)

    async def _open_confirmed(self, db: Db, confirmation: Confirmation, *, by: UUID) -> Created:
        asked, passenger_id = confirmation.asked, confirmation.passenger_id
        community = await _community_of(db, confirmation)
        at_home = await self._nearest(db, asked, passenger_id, frozenset({community.id}))
        # Whoever said that others will do waits for nobody in particular: the community's own come first.
        priced_as: Tier = "home" if at_home else confirmation.tier
        request = _community_request(asked, community, confirmation.tier, priced_as=priced_as)
        ride = await self._open(db, request, passenger_id, confirmation)
        await settle(db, confirmation, ride, by=by)
        return Created(ride, confirmed=True, at_home=at_home is not None)

    async def _open(
        self,
        db: Db,
        request: RideRequest,
        passenger_id: UserId,
        confirmation: Confirmation | None = None,
    ) -> Ride:
        return await rides.request_ride(
            db,
            replace(request, confirmation_id=confirmation.id if confirmation else None),
            passenger_id=passenger_id,
            tariff=self._terms.tariff,
            search_timeout=self._terms.search,
            ride_id=confirmation.ride_id if confirmation else None,
        )

    async def _nearest(
        self, db: Db, asked: Asked, passenger_id: UserId, whose: CommunityFilter
    ) -> NearbyDriver | None:
        """Whoever could be asked first, of these communities' drivers or of all."""
        search = Search(
            place=Place(asked.lat, asked.lng),
            radius_meters=self._terms.radius_meters,
            limit=1,
            community_ids=whose,
            fresh=self._terms.fresh,
        )
        _, near = await location.scan_nearby(db, self._redis, search, excluded={passenger_id})
        free = (one for one in near if one.is_available and one.driver_id != passenger_id)
        return next(free, None)


def _community_request(asked: Asked, community: Community, tier: Tier, *, priced_as: Tier) -> RideRequest:
    return replace(asked.to_request(), community=community, tier=tier, prices=community.prices_for(priced_as))


async def _community_of(db: Db, confirmation: Confirmation) -> Community:
    return await communities.read_community_version(
        db, confirmation.community_id, confirmation.community_version
    )
