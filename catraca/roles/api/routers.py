"""The routes of all domains, and their sections in the OpenAPI document."""

from catraca.domains.analytics import routes as analytics_routes
from catraca.domains.audit import routes as audit_routes
from catraca.domains.billing.captures import routes as capture_routes
from catraca.domains.billing.charges import routes as charge_routes
from catraca.domains.billing.pix_codes import routes as pix_routes
from catraca.domains.billing.statements import routes as statement_routes
from catraca.domains.communities import routes as community_routes
from catraca.domains.dead_letters.letters import routes as dead_letter_routes
from catraca.domains.dead_letters.replay import routes as replay_routes
from catraca.domains.fares import routes as fare_routes
from catraca.domains.geofences import routes as geofence_routes
from catraca.domains.location.locks import routes as lock_routes
from catraca.domains.location.nearby import routes as nearby_routes
from catraca.domains.location.pings import routes as ping_routes
from catraca.domains.location.positions import routes as position_routes
from catraca.domains.location.presence import routes as presence_routes
from catraca.domains.location.sharing import routes as sharing_routes
from catraca.domains.matching.explain import routes as matching_routes
from catraca.domains.notifications.messages import routes as notification_routes
from catraca.domains.notifications.push import routes as push_routes
from catraca.domains.notifications.sockets import routes as socket_routes
from catraca.domains.onboarding import routes as onboarding_routes
from catraca.domains.people.accounts import routes as account_routes
from catraca.domains.people.credentials import routes as credential_routes
from catraca.domains.people.drivers import routes as driver_routes
from catraca.domains.people.email_changes import routes as email_routes
from catraca.domains.people.second_factor import routes as second_factor_routes
from catraca.domains.rides import routes as ride_routes
from catraca.domains.scheduling import routes as scheduling_routes

ROUTERS = [
    *credential_routes.ROUTERS,
    *second_factor_routes.ROUTERS,
    *email_routes.ROUTERS,
    *account_routes.ROUTERS,
    *driver_routes.ROUTERS,
    *onboarding_routes.ROUTERS,
    *fare_routes.ROUTERS,
    *ride_routes.ROUTERS,
    charge_routes.router,
    pix_routes.router,
    capture_routes.router,
    statement_routes.router,
    presence_routes.router,
    ping_routes.router,
    nearby_routes.router,
    lock_routes.router,
    position_routes.router,
    sharing_routes.router,
    *matching_routes.ROUTERS,
    *community_routes.ROUTERS,
    *geofence_routes.ROUTERS,
    *scheduling_routes.ROUTERS,
    notification_routes.router,
    push_routes.router,
    socket_routes.router,
    dead_letter_routes.router,
    replay_routes.router,
    *audit_routes.ROUTERS,
    *analytics_routes.ROUTERS,
]
TAGS = {
    "sign-up": "Create an account.",
    "sign-in": "Exchange a password for a token.",
    "me": "The caller's own account: profile, export, erasure, sign-out.",
    "people": "For operators: accounts, drivers' approval, export and erasure.",
    "rides": "Quotes, ride requests, offers, trips and cancellation.",
    "payments": "Charges of completed rides, Pix codes, what is received, and drivers' accounts.",
    "communities": "Communities with their own drivers: fences, tariffs and their versions.",
    "location": "Online drivers: status, positions, search by distance, locks, trip links.",
    "scheduling": "Working hours, free slots and appointments that cannot overlap.",
    "notifications": "Notifications, the WebSocket that delivers them live, and web push.",
    "dead letters": "For operators: messages that failed; read, correct, replay or discard them.",
    "audit": "For operators: the audit log.",
    "analytics": "For operators: demand by hour and place, and searches that found no driver.",
}
# Paths that accept request bodies of any length.
STREAMS = frozenset({onboarding_routes.BULK_PATH})
