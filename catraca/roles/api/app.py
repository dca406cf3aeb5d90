"""The HTTP application: all routes, and what they need."""

from collections.abc import Sequence
from importlib.metadata import version

from fastapi import APIRouter, FastAPI

from catraca.domains import communities, notifications
from catraca.domains.communities.routes import CommunityParts
from catraca.domains.dead_letters.replay.routes import ReplayParts
from catraca.domains.location.commands import socket_commands
from catraca.domains.notifications.sockets.routes import SocketParts
from catraca.domains.people.email_changes.model import EmailCodes
from catraca.domains.rides.acceptance.service import Acceptance
from catraca.domains.scheduling.booking_batches.service import Bookings
from catraca.platform.http.app import Application, HttpParts, create_app
from catraca.platform.http.caller_middleware import CallerLimits
from catraca.platform.http.health import Health
from catraca.platform.http.rate_limits import RateLimit, RateLimiter
from catraca.platform.http.request_middleware import RequestLimits
from catraca.platform.http.route import part_of
from catraca.roles.api.authentication import Authentication
from catraca.roles.api.domain_parts import (
    account_parts,
    credential_parts,
    geofence_parts,
    location_parts,
    onboarding_parts,
    ping_recorder,
    presence_parts,
    push_parts,
    scheduling_parts,
    second_factor_parts,
)
from catraca.roles.api.routers import ROUTERS, STREAMS, TAGS
from catraca.roles.domain_rules import billing_rules, pix_terms, ride_terms, tariff_of
from catraca.roles.parts import Parts
from catraca.roles.replay_targets import replay_targets

# Requests of one person at a time in this process; as many as a browser with several tabs sends.
MOST_AT_ONCE = 8


def build_app(parts: Parts, health: Health, routers: Sequence[APIRouter] = ROUTERS) -> Application:
    settings = parts.settings
    authentication = Authentication(parts)
    limiter = RateLimiter(parts.redis, key=settings.signing_secret().encode())
    limits = CallerLimits(
        principal=RateLimit.parse(settings.http.rate_limit_principal),
        anonymous=RateLimit.parse(settings.http.rate_limit_anonymous),
        # One person's requests never take more than half of the connections.
        at_once=min(MOST_AT_ONCE, max(1, settings.servers.database_connections // 2)),
        streams=STREAMS,
    )
    fences = communities.Fences()
    presence, recorder = presence_parts(parts, fences), ping_recorder(parts)
    hub = notifications.Hub(parts.database, settings.servers.redis_url, revoked=authentication.revoked)
    sockets = SocketParts(
        commands=notifications.SocketCommands(
            hub, parts.database, socket_commands(parts.database.run, presence, recorder)
        ),
        authenticator=authentication.authenticator,
        limiter=limiter,
        principals=limits.principal,
        strangers=limits.anonymous,
        database=parts.database,
        origins=settings.http.cors_origins,
    )
    scheduling = scheduling_parts(parts)
    http = HttpParts(
        database=parts.database,
        authenticator=authentication.authenticator,
        limiter=limiter,
        health=health,
        caller_limits=limits,
        request_limits=RequestLimits(body_bytes=settings.http.max_body_bytes, streams=STREAMS),
        trusted_proxies=settings.http.trusted_proxies,
        cors_origins=settings.http.cors_origins,
        metrics_public=settings.http.metrics_public,
        expensive_at_once=max(1, settings.servers.database_connections // 4),
        fresh_sign_in=settings.access.fresh_sign_in,
        wired=[
            account_parts(parts, limiter),
            credential_parts(settings, limiter),
            second_factor_parts(settings, limiter),
            EmailCodes(settings.signing_secret()),
            onboarding_parts(settings, parts.bus),
            tariff_of(settings.fares),
            ride_terms(settings),
            billing_rules(settings),
            pix_terms(settings.billing),
            Acceptance(parts.database),
            location_parts(parts),
            presence,
            recorder,
            CommunityParts(fences),
            geofence_parts(parts, fences, limiter),
            scheduling,
            Bookings(scheduling.database, scheduling.queues, scheduling.rules),
            sockets,
            push_parts(settings),
            ReplayParts(replay_targets(parts.topology)),
        ],
    )
    return create_app(http, routers, version=version("catraca"), tags=TAGS)


def hub_of(app: FastAPI) -> notifications.Hub:
    """The sockets of this process."""
    return part_of(app, SocketParts).commands.hub
