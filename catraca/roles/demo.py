"""The demo city: people, communities and a clinic. Ids are fixed, mail addresses do not exist."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from catraca.domains import communities, people, scheduling
from catraca.domains.communities import CommunityDraft, CommunityId, Prices, Rules
from catraca.domains.communities.service import all_communities
from catraca.domains.people import NewUser, UserId
from catraca.domains.scheduling import NewWorker, ServiceId, ServiceTerms, WeeklyRule
from catraca.platform.database import Database, Db
from catraca.platform.geo import METERS_A_DEGREE

OPERATOR = NewUser(
    id=UserId(UUID("c1dade00-0000-4000-8000-000000000001")),
    role="operator",
    name="Dalva Nascimento",
    email="dalva@central.example.com",
)


def _passenger(number: int, name: str, mailbox: str) -> NewUser:
    return NewUser(
        id=UserId(UUID(f"c1dade00-0000-4000-8000-0000000001{number:02d}")),
        role="passenger",
        name=name,
        email=f"{mailbox}@passageiros.example.com",
    )


def _driver(number: int, name: str, mailbox: str, vehicle: str, plate: str) -> NewUser:
    return NewUser(
        id=UserId(UUID(f"c1dade00-0000-4000-8000-0000000002{number:02d}")),
        role="driver",
        name=name,
        email=f"{mailbox}@motoristas.example.com",
        vehicle=vehicle,
        plate=plate,
    )


PASSENGERS = (
    _passenger(1, "Ana Beatriz Moura", "ana"),
    _passenger(2, "João Pedro Sant'Anna", "joao"),
    _passenger(3, "Conceição Ribeiro", "conceicao"),
    _passenger(4, "Luís Otávio Brandão", "luis"),
    _passenger(5, "Iracema Tupinambá", "iracema"),
    _passenger(6, "Davi Yoshida", "davi"),
)
DRIVERS = (
    _driver(1, "Severino Lacerda", "severino", "Fiat Cronos prata", "QKT4B07"),
    _driver(2, "Rosângela Vilela", "rosangela", "Chevrolet Onix branco", "PLR8C31"),
    _driver(3, "Edmilson Queiroz", "edmilson", "Volkswagen Gol cinza", "JSD2914"),
    _driver(4, "Márcia Quaresma", "marcia", "Hyundai HB20 vermelho", "RDN5F62"),
    _driver(5, "Antônio Bispo", "antonio", "Toyota Etios prata", "OUW7730"),
    _driver(6, "Jurema Falcão", "jurema", "Renault Kwid laranja", "RPB1H48"),
    _driver(7, "Wellington Prado", "wellington", "Fiat Argo preto", "QQM3E95"),
    _driver(8, "Nilza Figueiredo", "nilza", "Chevrolet Spin branca", "PJG6051"),
    _driver(9, "Cícero Damasceno", "cicero", "Volkswagen Voyage azul", "NZB1187"),
    _driver(10, "Tainá Guimarães", "taina", "Nissan Versa cinza", "RVC9D24"),
    _driver(11, "Raimundo Peixoto", "raimundo", "Fiat Doblò branca", "OKY4406"),
    _driver(12, "Elaine Siqueira", "elaine", "Honda Fit prata", "QLA0G13"),
)


def _community(
    number: int, name: str, lat: float, lng: float, *, radius_meters: int, neighbour: int
) -> CommunityDraft:
    """A community with an octagonal fence around a place."""
    north = radius_meters / METERS_A_DEGREE
    east = north / math.cos(math.radians(lat))
    turns = [math.pi * corner / 4 for corner in range(8)]
    ring = [[lng + east * math.cos(turn), lat + north * math.sin(turn)] for turn in turns]
    fence = {"type": "Polygon", "coordinates": [[*ring, ring[0]]]}
    rules = Rules(
        name=name,
        tariff=Prices(base_cents=400, per_km_cents=150, per_minute_cents=25, minimum_cents=700),
        outside_tariff=Prices(base_cents=500, per_km_cents=180, per_minute_cents=30, minimum_cents=800),
        fallback=("neighbours", "open"),
        neighbour_ids=(_community_id(neighbour),),
    )
    return CommunityDraft(id=_community_id(number), rules=rules, fence=json.dumps(fence))


def _community_id(number: int) -> CommunityId:
    return CommunityId(UUID(f"c1dade00-0000-4000-8000-0000000003{number:02d}"))


COMMUNITIES = (
    _community(1, "Centro Histórico", -12.9725, -38.5098, radius_meters=700, neighbour=2),
    _community(2, "Campo Grande", -12.9915, -38.5185, radius_meters=900, neighbour=1),
    _community(3, "Rio Vermelho", -13.0090, -38.4900, radius_meters=1000, neighbour=2),
)
CONSULTATION = ServiceId(UUID("c1dade00-0000-4000-8000-000000000401"))
CONSULTATION_TERMS = ServiceTerms(
    name="Consulta",
    duration_minutes=30,
    buffer_after_minutes=10,
    min_notice_minutes=60,
    horizon_days=30,
    slot_step_minutes=20,
)
DOCTORS = (
    NewWorker(
        "Dra. Marlene Assunção",
        "America/Bahia",
        [WeeklyRule(day, *shift) for day in range(1, 6) for shift in ((8 * 60, 12 * 60), (13 * 60, 17 * 60))],
    ),
    NewWorker(
        "Dr. Valdir Couto", "America/Bahia", [WeeklyRule(day, 13 * 60, 21 * 60) for day in (1, 2, 3, 4, 5, 6)]
    ),
)


@dataclass(frozen=True, slots=True)
class DemoCity:
    """The people of the city. `is_here` is False in a database with other people, which is no demo."""

    is_here: bool
    operator: NewUser = OPERATOR
    passengers: Sequence[NewUser] = PASSENGERS
    drivers: Sequence[NewUser] = DRIVERS
    communities: Sequence[CommunityDraft] = COMMUNITIES


async def fill_demo_city(database: Database) -> DemoCity:
    """Insert the demo city if the database has no people. Safe to repeat and to run concurrently."""
    everyone = [OPERATOR, *PASSENGERS, *DRIVERS]
    await database.run(lambda db: people.add_first_users(db, everyone))
    async with database.connection() as db:
        found = await people.get_users(db, [OPERATOR.id])
    if found:
        await database.run(_add_communities)
        await database.run(_open_clinic)
    return DemoCity(is_here=bool(found))


async def _add_communities(db: Db) -> None:
    """Insert missing communities; a city of an earlier version has none. Existing ones are unchanged."""
    known = {one.id for one, _ in await all_communities(db)}
    missing = [one for one in COMMUNITIES if one.id not in known]
    await communities.import_communities(db, missing, by=None, dry_run=False, on_each=lambda: None)


async def _open_clinic(db: Db) -> None:
    """Insert the clinic if it is missing; a city of an earlier version has none."""
    await scheduling.open_service(db, CONSULTATION, CONSULTATION_TERMS, DOCTORS, by=OPERATOR.id)
