"""Texts of ride notifications in both languages, with amounts in the reader's format."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, get_args
from uuid import UUID, uuid4

import msgspec
import pytest

from catraca.domains.notifications import model
from catraca.domains.notifications.messages.model import notifications_of
from catraca.domains.notifications.model import MessageContext, NewNotification, SourceEvent
from catraca.domains.people import User, UserId
from catraca.domains.people.model import Driver
from catraca.domains.rides import Actor, Ride, RideId
from catraca.domains.scheduling import Names
from catraca.events import (
    AppointmentBooked,
    AppointmentCanceled,
    AppointmentConfirmed,
    AppointmentMissed,
    AppointmentNear,
    AppointmentRescheduled,
    CandidateFound,
    ConfirmationExpired,
    MatchingTimeout,
    NoDriversAvailable,
    OfferCanceled,
    RideAccepted,
    RideArriving,
    RideCancelled,
    RideCompleted,
    RideMatched,
    RidePaid,
    RidePaymentExpired,
    RideReassigning,
    RideStarted,
    SlotOffered,
)
from catraca.events.appointments import CanceledBy
from catraca.events.catalogue import example_of
from catraca.events.live import NOTICES
from catraca.platform.event import Event
from catraca.platform.texts import LANGUAGES, Language, distance, money, span, text, words

AT = datetime(2026, 2, 21, 10, 5, 35, tzinfo=UTC)
RIDE, OFFER, RIDER, DRIVER = (uuid4() for _ in range(4))
CLIENT, WORKER, BEFORE = (uuid4() for _ in range(3))
SERVICE, ANA, RUI = (uuid4() for _ in range(3))
GONE_REASONS = ("accepted_by_another_driver", "ride_canceled", "no_drivers_available")


def person(user_id: UUID, language: Language, **fields: Any) -> User:
    known = {"name": None, "email": None, "phone": None, "roles": (), "created_at": AT}
    return User(**{"id": UserId(user_id), "language": language, **known, **fields})


def context(language: Language = "pt-BR", **changes: Any) -> MessageContext:
    car = Driver(vehicle="Fiat Uno prata", plate="ABC1D23", home_community_id=None, approval="approved")
    ride = dict.fromkeys(Ride.__dataclass_fields__)
    ride |= {"id": RIDE, "pickup_lat": -23.5501, "pickup_lon": -46.6302}
    ride |= {"status": "ACCEPTED", "accepted_driver_id": DRIVER}
    usual = MessageContext(
        people={
            UserId(RIDER): person(RIDER, language, name="Maria Souza"),
            UserId(DRIVER): person(DRIVER, language, name="João da Silva", driver=car),
            **{UserId(one): person(one, language) for one in (CLIENT, WORKER, BEFORE)},
        },
        rides={RideId(RIDE): Ride(**ride)},  # type: ignore[arg-type]
        open_offers={OFFER},
        names=Names({SERVICE: "Consulta"}, {ANA: "Ana", RUI: "Rui"}),
        currency="BRL",
    )
    return replace(usual, **changes)


def of(kind: type[Event], **fields: Any) -> Event:
    """Return an event of this ride or appointment; other fields are the catalogue's examples."""
    names = {
        "service_id": SERVICE,
        "worker_id": ANA,
        "worker_user_id": WORKER,
        "client_id": CLIENT,
        "previous_worker_id": ANA,
        "previous_worker_user_id": WORKER,
        "ride_id": RIDE,
        "rider_id": RIDER,
        "driver_id": DRIVER,
        "offer_id": OFFER,
        "previous_driver_id": DRIVER,
    }
    named = {name: value for name, value in names.items() if name in kind.__struct_fields__}
    return msgspec.structs.replace(example_of(kind), **named | fields)


def notified(event: Event, place: MessageContext) -> list[tuple[UUID, str, dict[str, Any]]]:
    """Return recipient, type and data of each notification."""
    return [
        (one.user_id, one.notice.type, msgspec.json.decode(msgspec.json.encode(one.notice)))
        for one in notifications_of(SourceEvent(uuid4(), event), place)
    ]


def messages(event: Event, place: MessageContext) -> dict[UUID, list[str]]:
    texts: dict[UUID, list[str]] = {}
    for user_id, _, data in notified(event, place):
        texts.setdefault(user_id, []).append(data["message"])
    return texts


def offer(**fields: Any) -> Event:
    terms = {"estimated_fare_cents": 2550, "pickup_distance_meters": 1200, "distance_meters": 4200}
    return of(CandidateFound, **terms | {"expires_at": AT} | fields)


# Every event that notifies a user, with all variants of its texts.
NOTIFYING_EVENTS: list[Event] = [
    offer(),
    *(of(OfferCanceled, reason=reason) for reason in GONE_REASONS),
    of(MatchingTimeout),
    of(NoDriversAvailable),
    of(ConfirmationExpired),
    of(RideMatched, eta_seconds=300),
    of(RideArriving),
    of(RideStarted),
    of(RideCompleted, fare_cents=2550),
    of(RideCompleted, fare_cents=2550, completed_by="operator"),
    of(RidePaid, fare_cents=2550),
    of(RidePaymentExpired, fare_cents=2550),
    *(of(RideCancelled, cancelled_by=actor, reason="other") for actor in get_args(Actor)),
    of(RideReassigning, reason="vehicle_problem"),
    of(AppointmentBooked),
    of(AppointmentRescheduled),
    of(AppointmentRescheduled, previous_worker_id=RUI, previous_worker_user_id=BEFORE),
    of(AppointmentConfirmed),
    *(of(AppointmentCanceled, canceled_by=party) for party in get_args(CanceledBy)),
    of(AppointmentMissed),
    of(AppointmentNear),
    of(SlotOffered),
]


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("pt-BR", "Nova corrida disponível! R$ 25,50 - 1,2 km de distância"),
        ("en", "New ride available! R$25.50 - 1.2 km away"),
    ],
)
def test_offer_shows_fare_and_distance(language: Language, words: str) -> None:
    (found,) = notified(offer(), context(language))
    assert found == (
        DRIVER,
        "matching.candidate_found",
        {
            "ride_id": str(RIDE),
            "offer_id": str(OFFER),
            "message": words,
            "attempt": example_of(CandidateFound).attempt,
            "expires_at": "2026-02-21T10:05:35Z",
            "pickup": {"lat": -23.55, "lng": -46.63},
            "pickup_distance_meters": 1200,
            "distance_meters": 4200,
            "estimated_fare_cents": 2550,
        },
    )


@pytest.mark.parametrize(
    ("unknown", "portuguese", "english"),
    [
        (
            ["estimated_fare_cents"],
            "Nova corrida disponível! 1,2 km de distância",
            "New ride available! 1.2 km away",
        ),
        (["pickup_distance_meters"], "Nova corrida disponível! R$ 25,50", "New ride available! R$25.50"),
        (
            ["estimated_fare_cents", "pickup_distance_meters"],
            "Nova corrida disponível!",
            "New ride available!",
        ),
    ],
)
def test_offer_leaves_out_unknown_values(unknown: list[str], portuguese: str, english: str) -> None:
    event = offer(**dict.fromkeys(unknown))
    assert messages(event, context("pt-BR")) == {DRIVER: [portuguese]}
    assert messages(event, context("en")) == {DRIVER: [english]}


def test_acceptance_notifies_both_parties_as_the_contract_says() -> None:
    assert notified(of(RideMatched, eta_seconds=300), context()) == [
        (
            RIDER,
            "ride.accepted",
            {
                "ride_id": str(RIDE),
                "driver_id": str(DRIVER),
                "message": "Um motorista aceitou sua corrida!",
                "eta_seconds": 300,
            },
        ),
        (
            RIDER,
            "ride.matched",
            {
                "ride_id": str(RIDE),
                "message": "Motorista encontrado! João está a caminho.",
                "driver": {
                    "id": str(DRIVER),
                    "name": "João da Silva",
                    "vehicle": "Fiat Uno prata",
                    "plate": "ABC1D23",
                },
                "eta_seconds": 300,
                "eta": "5 min",
            },
        ),
        (
            DRIVER,
            "ride.accepted",
            {
                "ride_id": str(RIDE),
                "passenger_id": str(RIDER),
                "pickup_location": {"lat": -23.5501, "lon": -46.6302},
                "message": "Você aceitou a corrida! Vá ao ponto de partida.",
                "eta_seconds": 300,
            },
        ),
    ]
    assert messages(of(RideMatched), context("en")) == {
        RIDER: ["A driver has accepted your ride!", "Driver found! João is on the way."],
        DRIVER: ["You have accepted the ride! Go to the pickup point."],
    }


def test_passenger_and_driver_read_their_own_language() -> None:
    mixed = context()
    mixed = replace(mixed, people={**mixed.people, UserId(DRIVER): person(DRIVER, "en", name="João")})
    texts = messages(of(RideMatched), mixed)
    assert texts[RIDER][0] == "Um motorista aceitou sua corrida!"
    assert texts[DRIVER] == ["You have accepted the ride! Go to the pickup point."]


@pytest.mark.parametrize(
    ("language", "words"),
    [("pt-BR", "Motorista encontrado! Está a caminho."), ("en", "Driver found! On the way to you.")],
)
def test_match_notice_without_name_and_eta(language: Language, words: str) -> None:
    place = context(language)
    nameless = replace(place, people={**place.people, UserId(DRIVER): person(DRIVER, language)})
    (_, _, data) = notified(of(RideMatched, eta_seconds=None), nameless)[1]
    assert data == {
        "ride_id": str(RIDE),
        "message": words,
        "driver": {"id": str(DRIVER), "name": None, "vehicle": None, "plate": None},
        "eta_seconds": None,
        "eta": None,
    }


@pytest.mark.parametrize("kind", [NoDriversAvailable, MatchingTimeout])
def test_no_driver_notice_proposes_actions(kind: type[Event]) -> None:
    actions = ["retry_same_location", "increase_radius", "schedule_later"]
    portuguese = {
        "title": "Nenhum motorista disponível",
        "message": "Não encontramos motoristas na sua região no momento."
        " Tente novamente em alguns minutos ou aumente o raio de busca.",
    }
    english = {
        "title": "No driver available",
        "message": "We found no drivers in your area at the moment."
        " Try again in a few minutes, or search farther out.",
    }
    for language, texts in (("pt-BR", portuguese), ("en", english)):
        assert notified(of(kind), context(language)) == [  # type: ignore[arg-type]
            (RIDER, "matching.no_drivers_available", {"ride_id": str(RIDE), "actions": actions, **texts})
        ]
    assert notified(of(RideCancelled, reason="no_drivers_available"), context()) == [], (
        "`matching.no_drivers_available` notifies already"
    )


@pytest.mark.parametrize(
    ("reason", "portuguese", "english"),
    [
        (
            "accepted_by_another_driver",
            "Esta corrida foi aceita por outro motorista.",
            "This ride was accepted by another driver.",
        ),
        ("ride_canceled", "Esta corrida foi cancelada.", "This ride was canceled."),
        (
            "no_drivers_available",
            "O tempo para aceitar esta corrida acabou.",
            "The time to accept this ride is over.",
        ),
    ],
)
def test_canceled_offer_has_its_reason(reason: str, portuguese: str, english: str) -> None:
    for language, message in (("pt-BR", portuguese), ("en", english)):
        data = {"ride_id": str(RIDE), "offer_id": str(OFFER), "reason": reason, "message": message}
        assert notified(of(OfferCanceled, reason=reason), context(language)) == [  # type: ignore[arg-type]
            (DRIVER, "offer.canceled", data)
        ]


@pytest.mark.parametrize(
    ("event", "portuguese", "english"),
    [
        (
            of(RideArriving),
            "Seu motorista está no ponto de partida.",
            "Your driver is at the pickup point.",
        ),
        (of(RideStarted), "Sua corrida começou. Boa viagem!", "Your ride has begun. Have a good trip!"),
        (
            of(RideReassigning),
            "O motorista desistiu da corrida. Estamos procurando outro.",
            "The driver gave the ride up. We are looking for another one.",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_passenger_is_notified_of_each_step(event: Event, portuguese: str, english: str) -> None:
    assert messages(event, context("pt-BR")) == {RIDER: [portuguese]}
    assert messages(event, context("en")) == {RIDER: [english]}


@pytest.mark.parametrize(
    ("cents", "portuguese", "english"),
    [
        (2550, "Corrida concluída. Valor: R$ 25,50.", "Ride completed. Fare: R$25.50."),
        (123456, "Corrida concluída. Valor: R$ 1.234,56.", "Ride completed. Fare: R$1,234.56."),
        (5, "Corrida concluída. Valor: R$ 0,05.", "Ride completed. Fare: R$0.05."),
    ],
)
def test_both_parties_read_the_fare(cents: int, portuguese: str, english: str) -> None:
    event = of(RideCompleted, fare_cents=cents)
    assert messages(event, context("pt-BR")) == {RIDER: [portuguese], DRIVER: [portuguese]}
    assert messages(event, context("en")) == {RIDER: [english], DRIVER: [english]}


@pytest.mark.parametrize(
    ("by", "to_rider", "to_driver"),
    [
        ("passenger", "Você cancelou a corrida.", "O passageiro cancelou a corrida."),
        ("driver", "O motorista cancelou a corrida.", "Você cancelou a corrida."),
        ("operator", "A central cancelou a corrida.", "A central cancelou a corrida."),
        ("system", "A corrida foi cancelada.", "A corrida foi cancelada."),
    ],
)
def test_both_parties_read_who_canceled(by: str, to_rider: str, to_driver: str) -> None:
    event = of(RideCancelled, cancelled_by=by, reason="other")
    assert messages(event, context()) == {RIDER: [to_rider], DRIVER: [to_driver]}
    alone = msgspec.structs.replace(event, driver_id=None)
    assert messages(alone, context()) == {RIDER: [to_rider]}


@pytest.mark.parametrize(
    ("by", "to_rider", "to_driver"),
    [
        ("passenger", "You canceled the ride.", "The passenger canceled the ride."),
        ("driver", "The driver canceled the ride.", "You canceled the ride."),
        ("operator", "The dispatch office canceled the ride.", "The dispatch office canceled the ride."),
        ("system", "The ride was canceled.", "The ride was canceled."),
    ],
)
def test_both_parties_read_who_canceled_in_english(by: str, to_rider: str, to_driver: str) -> None:
    event = of(RideCancelled, cancelled_by=by, reason="other")
    assert messages(event, context("en")) == {RIDER: [to_rider], DRIVER: [to_driver]}


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_texts_exist_and_are_used(language: Language, monkeypatch: pytest.MonkeyPatch) -> None:
    used: set[str] = set()

    def recorded(key: str, *rest: Any) -> str:
        used.add(key)
        return text(key, *rest)

    monkeypatch.setattr(model, "text", recorded)
    place = context(language)
    nameless = replace(place, people={**place.people, UserId(DRIVER): person(DRIVER, language)})
    for event in NOTIFYING_EVENTS:
        assert notified(event, place)
        assert notified(event, nameless)
    assert used == {key for key in words(language) if key.startswith("notifications.")}


def test_recipients_match_the_catalogue() -> None:
    notices: list[NewNotification] = [
        one for event in NOTIFYING_EVENTS for one in notifications_of(SourceEvent(uuid4(), event), context())
    ]
    assert {type(one.notice) for one in notices} == set(NOTICES)
    parties = {RIDER: "passenger", DRIVER: "driver", CLIENT: "client", WORKER: "worker", BEFORE: "worker"}
    for one in notices:
        assert parties[one.user_id] in one.notice.to


def test_other_events_notify_no_user() -> None:
    assert notified(of(RideAccepted), context()) == [], "`ride.matched` notifies, with the time of arrival"
    assert notified(offer(), context(open_offers=())) == [], "the offer has ended"


def test_erased_users_are_not_notified() -> None:
    place = context()
    erased = {UserId(one): person(one, "pt-BR", erased_at=AT) for one in (DRIVER, WORKER)}
    place = replace(place, people={**place.people, **erased})
    assert {user_id for event in NOTIFYING_EVENTS for user_id, _, _ in notified(event, place)} == {
        RIDER,
        CLIENT,
        BEFORE,
    }


@pytest.mark.parametrize(
    ("meters", "portuguese", "english"),
    [
        (0, "0 m", "0 m"),
        (854, "850 m", "850 m"),
        (994, "990 m", "990 m"),
        (995, "1 km", "1 km"),
        (1249, "1,2 km", "1.2 km"),
        (12_340, "12,3 km", "12.3 km"),
        (1_234_500, "1.234,5 km", "1,234.5 km"),
    ],
)
def test_distance_text_is_rounded(meters: int, portuguese: str, english: str) -> None:
    assert (distance(meters, "pt-BR"), distance(meters, "en")) == (portuguese, english)


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "1 min"), (20, "1 min"), (300, "5 min"), (3700, "62 min")]
)
def test_span_text_has_at_least_one_minute(seconds: int, words: str) -> None:
    assert [span(seconds, language) for language in LANGUAGES] == [words, words]


def test_money_text_of_another_currency() -> None:
    assert money(2550, "EUR", "pt-BR") == "€ 25,50"
    assert money(2550, "USD", "en") == "$25.50"
