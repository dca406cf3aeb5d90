"""The role that answers HTTP."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from importlib.metadata import version
from uuid import UUID

from fastapi import APIRouter, FastAPI

from catraca.domains import (
    communities,
    dead_letters,
    geofences,
    location,
    notifications,
    onboarding,
    people,
    scheduling,
)
from catraca.domains.analytics import routes as analytics_routes
from catraca.domains.audit import routes as audit_routes
from catraca.domains.communities import routes as community_routes
from catraca.domains.communities.routes import CommunityParts
from catraca.domains.dead_letters import routes as dead_letter_routes
from catraca.domains.dead_letters.routes import DeadLetterParts
from catraca.domains.fares import Tariff
from catraca.domains.fares import routes as fare_routes
from catraca.domains.geofences import routes as geofence_routes
from catraca.domains.geofences.routes import GeofenceParts
from catraca.domains.location import routes as location_routes
from catraca.domains.location.routes import LocationParts
from catraca.domains.matching.explain import routes as matching_routes
from catraca.domains.notifications.messages import routes as notification_routes
from catraca.domains.notifications.push import routes as push_routes
from catraca.domains.notifications.push.routes import PushParts
from catraca.domains.notifications.sockets import routes as socket_routes
from catraca.domains.notifications.sockets.routes import SocketParts
from catraca.domains.onboarding import routes as onboarding_routes
from catraca.domains.onboarding.routes import OnboardingParts
from catraca.domains.people import routes as people_routes
from catraca.domains.people.routes import PeopleParts
from catraca.domains.rides import routes as ride_routes
from catraca.domains.rides.acceptance.service import Acceptance
from catraca.domains.rides.model import RideTerms
from catraca.domains.rides.personal_data.service import PERSONAL_DATA as RIDE_DATA
from catraca.domains.scheduling import routes as scheduling_routes
from catraca.domains.scheduling.routes import SchedulingParts
from catraca.platform.auth import (
    Authenticator,
    KeySource,
    Principal,
    SharedSecret,
    TokenRules,
    TokenSigner,
    TokenVerifier,
)
from catraca.platform.bus import Transport
from catraca.platform.gather import Gather
from catraca.platform.http.app import HttpParts, create_app
from catraca.platform.http.caller_middleware import CallerLimits
from catraca.platform.http.health import Health
from catraca.platform.http.rate_limits import RateLimit, RateLimiter
from catraca.platform.http.request_middleware import RequestLimits
from catraca.platform.http.route import part_of
from catraca.platform.http.server import HttpServer, ServerLimits
from catraca.platform.jwks import ProviderKeys
from catraca.platform.key_queues import KeyQueues
from catraca.platform.passwords import Passwords
from catraca.platform.web_push import PushHosts, PushKey
from catraca.roles.duties import queue_duties
from catraca.roles.listening import open_listener
from catraca.roles.location_commands import location_commands
from catraca.roles.parts import Parts
from catraca.roles.runner import Life, first_of
from catraca.settings import Settings

ROUTERS = [
    *people_routes.ROUTERS,
    *onboarding_routes.ROUTERS,
    *fare_routes.ROUTERS,
    *ride_routes.ROUTERS,
    *location_routes.ROUTERS,
    *matching_routes.ROUTERS,
    *community_routes.ROUTERS,
    *geofence_routes.ROUTERS,
    *scheduling_routes.ROUTERS,
    notification_routes.router,
    push_routes.router,
    socket_routes.router,
    *dead_letter_routes.ROUTERS,
    *audit_routes.ROUTERS,
    *analytics_routes.ROUTERS,
]
TAGS = {
    "sign-up": "How somebody new comes in.",
    "sign-in": "From a password to a token.",
    "me": "Whoever holds the token: profile, data, sign-out.",
    "people": "For operators: who is here, what they may do, and what is kept of them.",
    "rides": "From the question what it costs to the end of the ride.",
    "communities": "Who rides with their own drivers first: fences, prices, and what they were before.",
    "location": "Which drivers are at work, where they are, and who holds them.",
    "scheduling": "Who works when, what is free, and appointments that cannot overlap.",
    "notifications": "What you were told, and the WebSocket over which you are told as it happens.",
    "dead letters": "For operators: what could not be handled, to be seen, mended, replayed or discarded.",
    "audit": "For operators: who did what, and what happened.",
    "analytics": "For operators: demand by hour and place, and where no driver was found.",
}
# Every domain that keeps something of people: what an export tells and an erasure takes, in this order.
PERSONAL_DATA = [
    # Before a person's own row is taken, which whoever books for them needs once they hold the agenda.
    scheduling.PERSONAL_DATA,
    people.PERSONAL_DATA,
    people.AUDIT_DATA,
    onboarding.PERSONAL_DATA,
    RIDE_DATA,
    geofences.PERSONAL_DATA,
    notifications.PERSONAL_DATA,
    dead_letters.PERSONAL_DATA,
]

# Where files of any length are taken as they come.
STREAMS = frozenset({onboarding_routes.BULK_PATH})


class Api:
    """Serves until told to stop; then not ready, no new connections, finishes what is in hand."""

    def __init__(self, parts: Parts, more_routers: Sequence[APIRouter] = ()) -> None:
        self._parts = parts
        self._routers = [*ROUTERS, *more_routers]
        self._health = Health(
            required={"database": parts.database.is_up},
            reported={"redis": parts.redis.is_up, "bus": parts.bus.is_up},
        )

    async def run(self, life: Life) -> None:
        settings = self._parts.settings
        app = build_app(self._parts, self._health, self._routers)
        hub = hub_of(app)
        server = HttpServer(app, limits=ServerLimits(streams=STREAMS))
        listener = self._parts.listener or open_listener(settings.process.host, settings.process.port)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        await first_of(asyncio.wait([serving]), life.stopping.wait())
        self._health.draining = True
        # Load balancers ask now and then whether we are ready; until they know, connections still come.
        await asyncio.wait([serving], timeout=settings.process.drain_delay)
        await hub.drain()
        server.should_exit = True
        await serving


def hub_of(app: FastAPI) -> notifications.Hub:
    """The sockets of this process."""
    return part_of(app, SocketParts).commands.hub


def build_app(parts: Parts, health: Health, routers: Sequence[APIRouter] = ROUTERS) -> FastAPI:
    settings = parts.settings

    async def look_up(bearers: Sequence[tuple[UUID, frozenset[str]]]) -> Sequence[people.Standing | None]:
        async with parts.database.connection() as db:
            return await people.standings_of(db, bearers)

    # Whoever arrives while somebody is looked up is looked up together.
    standings = Gather(look_up)

    async def tokens_valid_after(principal: Principal) -> datetime | None:
        known = await standings.ask((principal.id, principal.roles))
        if known is not None:
            return known.tokens_valid_after
        return await parts.database.run(
            lambda db: people.ensure_user(
                db, principal.id, roles=principal.roles, driver_approval=settings.people.driver_approval
            )
        )

    rules = settings.token_rules()
    authenticator = Authenticator(TokenVerifier(_keys(settings), rules), tokens_valid_after)
    limiter = RateLimiter(parts.redis, key=settings.signing_secret().encode())
    limits = CallerLimits(
        principal=RateLimit.parse(settings.http.rate_limit_principal),
        anonymous=RateLimit.parse(settings.http.rate_limit_anonymous),
    )

    async def revoked(principals: Sequence[Principal]) -> list[bool]:
        known = await look_up([(one.id, one.roles) for one in principals])
        return [
            authenticator.is_revoked(one, standing and standing.tokens_valid_after)
            for one, standing in zip(principals, known, strict=True)
        ]

    fences = communities.Fences()
    location_parts = _location_parts(parts, fences)
    hub = notifications.Hub(parts.database, settings.servers.redis_url, revoked=revoked)
    return create_app(
        HttpParts(
            database=parts.database,
            authenticator=authenticator,
            limiter=limiter,
            health=health,
            caller_limits=limits,
            request_limits=RequestLimits(body_bytes=settings.http.max_body_bytes, streams=STREAMS),
            trusted_proxies=settings.http.trusted_proxies,
            cors_origins=settings.http.cors_origins,
            metrics_public=settings.http.metrics_public,
            wired=[
                _people_parts(settings, rules, location.personal_data(parts.redis)),
                _onboarding_parts(settings, parts.bus),
                tariff := _tariff(settings),
                _ride_terms(parts, tariff),
                Acceptance(parts.database, parts.redis),
                location_parts,
                CommunityParts(fences),
                _geofence_parts(parts, tariff, fences),
                _scheduling_parts(parts),
                SocketParts(
                    commands=notifications.SocketCommands(
                        hub, parts.database, location_commands(location_parts, parts.database)
                    ),
                    database=parts.database,
                    authenticator=authenticator,
                    limiter=limiter,
                    principals=limits.principal,
                    strangers=limits.anonymous,
                    origins=settings.http.cors_origins,
                ),
                _push_parts(settings),
                DeadLetterParts(queue_duties(parts.topology)),
            ],
        ),
        routers,
        version=version("catraca"),
        tags=TAGS,
    )


def _people_parts(settings: Settings, rules: TokenRules, *more: people.PersonalData) -> PeopleParts:
    signer = None
    if not settings.access.jwks_url:
        signer = TokenSigner(
            secret=settings.signing_secret(), lifetime=settings.people.token_ttl, rules=rules
        )
    return PeopleParts(
        signer=signer,
        passwords=Passwords(),
        driver_approval=settings.people.driver_approval,
        password_link_lifetime=settings.people.password_link_ttl,
        sign_ins_per_account=RateLimit.parse(settings.people.rate_limit_sign_in_account),
        sign_ins_per_address=RateLimit.parse(settings.people.rate_limit_sign_in_address),
        personal_data=[*PERSONAL_DATA, *more],
    )


def _onboarding_parts(settings: Settings, bus: Transport) -> OnboardingParts:
    return OnboardingParts(
        seal=onboarding.Seal(settings.signing_secret()),
        # What arrives while the bus is busy with the last sign-ups goes together.
        publish=Gather(bus.publish).ask,
        publish_many=bus.publish,
        sign_ups_per_address=RateLimit.parse(settings.onboarding.rate_limit_sign_up_address),
        sign_ups_per_email=RateLimit.parse(settings.onboarding.rate_limit_sign_up_email),
    )


def _tariff(settings: Settings) -> Tariff:
    return Tariff(
        base_cents=settings.fares.tariff_base_cents,
        per_km_cents=settings.fares.tariff_per_km_cents,
        per_minute_cents=settings.fares.tariff_per_minute_cents,
        minimum_cents=settings.fares.tariff_minimum_cents,
        currency=settings.fares.currency,
    )


def _ride_terms(parts: Parts, tariff: Tariff) -> RideTerms:
    return RideTerms(
        tariff=tariff,
        search_timeout=parts.settings.rides.global_matching_timeout,
        offer_ttl=parts.settings.rides.driver_response_timeout,
    )


def _geofence_parts(parts: Parts, tariff: Tariff, fences: communities.Fences) -> GeofenceParts:
    settings = parts.settings
    terms = geofences.Terms(
        enabled=settings.geofences.enable_geofence,
        ttl=settings.geofences.confirmation_ttl,
        tariff=tariff,
        search=settings.rides.global_matching_timeout,
        radius_meters=settings.matching.max_search_radius,
        fresh=settings.location.presence_timeout,
    )
    tokens = geofences.TokenMaker(settings.signing_secret())
    return GeofenceParts(
        gate=geofences.Gate(parts.redis, fences, terms, tokens),
        guesses=RateLimit.parse(settings.geofences.rate_limit_confirmation),
    )


def _scheduling_parts(parts: Parts) -> SchedulingParts:
    settings = parts.settings
    rules = scheduling.BookingRules(
        reminder=settings.scheduling.appointment_reminder,
        hold_ttl=settings.scheduling.hold_ttl,
        most_holds=settings.scheduling.max_holds,
    )
    return SchedulingParts(turns=KeyQueues(parts.redis), rules=rules)


def _location_parts(parts: Parts, fences: communities.Fences) -> LocationParts:
    settings, transact = parts.settings, parts.database.run
    rules = location.PingRules(
        max_age=settings.location.presence_timeout,
        max_speed_mps=settings.location.ping_max_speed,
        max_accuracy_meters=settings.location.ping_max_accuracy,
    )
    tracking = location.Tracking(transact, parts.bus.publish_transient)
    return LocationParts(
        redis=parts.redis,
        desk=location.PingDesk(parts.redis, transact, rules=rules, tracking=tracking),
        rules=rules,
        fences=fences,
        presence_timeout=settings.location.presence_timeout,
        lock_ttl=settings.location.lock_ttl,
    )


def _push_parts(settings: Settings) -> PushParts:
    hosts, contact = PushHosts(settings.notifications.push_hosts), settings.notifications.push_contact
    if contact is None:
        return PushParts(hosts=hosts)
    return PushParts(public_key=PushKey(settings.signing_secret(), contact=contact).public, hosts=hosts)


def _keys(settings: Settings) -> KeySource:
    return (
        ProviderKeys(settings.access.jwks_url)
        if settings.access.jwks_url
        else SharedSecret(settings.signing_secret())
    )
