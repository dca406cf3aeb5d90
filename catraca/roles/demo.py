"""The demo city: people to try Catraca with. Their ids are fixed, their addresses reach nobody."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from catraca.domains import people
from catraca.domains.people import NewPerson, UserId
from catraca.platform.database import Database

OPERATOR = NewPerson(
    id=UserId(UUID("c1dade00-0000-4000-8000-000000000001")),
    role="operator",
    name="Dalva Nascimento",
    email="dalva@central.example.com",
)


def _passenger(number: int, name: str, mailbox: str) -> NewPerson:
    return NewPerson(
        id=UserId(UUID(f"c1dade00-0000-4000-8000-0000000001{number:02d}")),
        role="passenger",
        name=name,
        email=f"{mailbox}@passageiros.example.com",
    )


def _driver(number: int, name: str, mailbox: str, vehicle: str, plate: str) -> NewPerson:
    return NewPerson(
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


@dataclass(frozen=True, slots=True)
class DemoCity:
    """Who lives there. `is_here` is False in a database that has other people: it is not a demo."""

    is_here: bool
    operator: NewPerson = OPERATOR
    passengers: Sequence[NewPerson] = PASSENGERS
    drivers: Sequence[NewPerson] = DRIVERS


async def fill_demo_city(database: Database) -> DemoCity:
    """Put the demo city's people in if there is nobody yet. Safe to repeat, and for many at once."""
    everyone = [OPERATOR, *PASSENGERS, *DRIVERS]
    await database.run(lambda db: people.add_first_people(db, everyone))
    async with database.connection() as db:
        found = await people.get_users(db, [OPERATOR.id])
    return DemoCity(is_here=bool(found))
