"""All routers of rides."""

from catraca.domains.rides.acceptance import routes as acceptance
from catraca.domains.rides.flags import routes as flags
from catraca.domains.rides.interventions import routes as interventions
from catraca.domains.rides.offers import routes as offers
from catraca.domains.rides.requests import routes as requests
from catraca.domains.rides.trips import routes as trips
from catraca.domains.rides.views import routes as views

ROUTERS = [
    # First, because it is the busiest: routes are tried in order.
    acceptance.accept_router,
    requests.router,
    views.router,
    offers.router,
    trips.router,
    interventions.router,
    flags.router,
    acceptance.router,
]
