"""A user's own profile."""

import asyncio
from uuid import uuid4

import httpx
import pytest

from tests.conftest import bearer
from tests.domains.communities.places import post_community
from tests.domains.people.person import Person
from tests.servers import on_one_stack

pytestmark = on_one_stack


async def test_new_user_has_an_empty_profile(api: httpx.AsyncClient) -> None:
    ana = Person()
    profile = (await api.get("/v1/me", headers=ana.headers)).json()
    assert profile["id"] == str(ana.id)
    assert profile["roles"] == ["passenger"]
    assert profile["language"] == "pt-BR"
    assert [profile[field] for field in ("name", "email", "phone", "driver")] == [None] * 4


async def test_change_affects_only_the_given_fields(api: httpx.AsyncClient) -> None:
    ana = Person()
    await ana.with_email(api)
    first = await ana.change(api, name=" Ana Moura ", phone="+5571987654321", language="en")
    assert first.status_code == 200
    second = (await ana.change(api, phone=None)).json()
    assert second["name"] == "Ana Moura"
    assert second["email"] == ana.email
    assert second["phone"] is None
    assert second["language"] == "en"
    assert (await api.get("/v1/me", headers=ana.headers)).json() == second


async def test_empty_change_changes_nothing(api: httpx.AsyncClient) -> None:
    ana = await Person().with_email(api)
    assert (await ana.change(api)).json()["email"] == ana.email


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": None},
        {"name": 7},
        {"name": "a\u202eb"},
        {"name": "x" * 121},
        {"name": "\u0958" * 120},
        {"email": "nowhere"},
        {"email": "a@b"},
        {"email": "\ufdfa" * 60 + "@example.com"},
        {"email": ["ana@example.com"]},
        {"phone": "71987654321"},
        {"phone": "+0123456789"},
        {"phone": "+5571987654321234"},
        {"phone": "+55 71 98765"},
        {"phone": "+٥٥٧١٩٨٧٦٥٤٣"},
        {"language": "fr"},
        {"language": None},
        {"driver": None},
        {"driver": {"approval": "approved"}},
        {"roles": ["operator"]},
        {"id": str(uuid4())},
        {"tokens_valid_after": None},
        [],
        "name",
        None,
    ],
)
async def test_invalid_field_is_refused_and_nothing_changes(api: httpx.AsyncClient, change: object) -> None:
    ana = await Person().with_email(api)
    body = {"name": "Changed", **change} if isinstance(change, dict) and "name" not in change else change
    answer = await api.patch("/v1/me", headers=ana.headers, json=body)
    assert answer.status_code == 422
    assert answer.json()["code"] == "request_invalid"
    profile = (await api.get("/v1/me", headers=ana.headers)).json()
    assert profile["name"] is None
    assert profile["email"] == ana.email


@pytest.mark.parametrize(
    "change",
    [
        {"vehicle": ""},
        {"vehicle": "x" * 81},
        {"plate": "AB"},
        {"plate": "straße1"},
        {"plate": "ABCDEFGHIJK"},
        {"home_community_id": "here"},
        {"wheels": 4},
    ],
)
async def test_invalid_field_of_a_driver_is_refused(api: httpx.AsyncClient, change: object) -> None:
    driver = await Person("driver").known_to(api)
    answer = await driver.change(api, driver=change)
    assert answer.status_code == 422


async def test_refusal_does_not_repeat_the_sent_value(api: httpx.AsyncClient) -> None:
    answer = await Person().change(api, email="a secret that is no address")
    assert "secret" not in answer.text


async def test_driver_changes_the_car(api: httpx.AsyncClient) -> None:
    driver, home = Person("driver"), (await post_community(api))["community_id"]
    car = {"vehicle": "Fiat Cronos prata", "plate": "abc-1d23", "home_community_id": home}
    answer = await driver.change(api, driver=car)
    assert answer.json()["driver"] == {
        "vehicle": "Fiat Cronos prata",
        "plate": "ABC1D23",
        "home_community_id": home,
        "approval": "approved",
        "approval_reason": None,
    }
    cleared = (await driver.change(api, driver={"plate": None})).json()["driver"]
    assert cleared["plate"] is None
    assert cleared["vehicle"] == "Fiat Cronos prata"


async def test_home_must_be_an_existing_community(api: httpx.AsyncClient) -> None:
    driver, home = Person("driver"), (await post_community(api))["community_id"]
    await driver.change(api, driver={"plate": "ABC1D23", "home_community_id": home})
    details: dict[str, str] = {}
    for language in ("en", "pt-BR"):
        driver.headers["accept-language"] = language
        answer = await driver.change(api, name="Ana", driver={"home_community_id": str(uuid4())})
        assert (answer.status_code, answer.json()["code"]) == (422, "home_community_unknown")
        details[language] = answer.json()["detail"]
    assert details == {
        "en": 'There is no community with the id in "home_community_id".',
        "pt-BR": 'Não há comunidade com o id em "home_community_id".',
    }
    profile = (await api.get("/v1/me", headers=driver.headers)).json()
    assert (profile["name"], profile["driver"]["home_community_id"]) == (None, home)
    assert (await driver.change(api, driver={"home_community_id": None})).json()["driver"][
        "home_community_id"
    ] is None


async def test_only_drivers_have_a_car(api: httpx.AsyncClient) -> None:
    answer = await Person().change(api, name="Ana", driver={"plate": "ABC1D23"})
    assert answer.status_code == 403
    both = Person("driver")
    await both.known_to(api)
    as_passenger = bearer("passenger", both.id)
    assert (await api.get("/v1/me", headers=as_passenger)).json()["driver"] is None
    change = {"driver": {"plate": "ABC1D23"}}
    assert (await api.patch("/v1/me", headers=as_passenger, json=change)).status_code == 403


async def test_concurrent_changes_do_not_undo_each_other(api: httpx.AsyncClient) -> None:
    driver = await Person("driver").known_to(api)
    answers = await asyncio.gather(
        driver.change(api, name="Severino"),
        driver.change(api, phone="+5571987654321"),
        driver.change(api, language="en"),
        driver.change(api, driver={"vehicle": "Fiat Uno"}),
        driver.change(api, driver={"plate": "ABC1D23"}),
    )
    assert {answer.status_code for answer in answers} == {200}
    profile = (await api.get("/v1/me", headers=driver.headers)).json()
    assert (profile["name"], profile["phone"], profile["language"]) == ("Severino", "+5571987654321", "en")
    assert (profile["driver"]["vehicle"], profile["driver"]["plate"]) == ("Fiat Uno", "ABC1D23")


async def test_field_errors_are_in_the_callers_language(api: httpx.AsyncClient) -> None:
    ana = Person()
    wrong = {"name": None, "email": "nowhere", "phone": "123", "driver": {"plate": "x"}}
    messages: dict[str, dict[str, str]] = {}
    for language in ("en", "pt-BR"):
        headers = {**ana.headers, "accept-language": language}
        errors = (await api.patch("/v1/me", headers=headers, json=wrong)).json()["errors"]
        assert {error["where"]: error["code"] for error in errors} == {
            "body.name": "string_type",
            "body.email": "email_malformed",
            "body.phone": "phone_malformed",
            "body.driver.plate": "plate_malformed",
        }
        messages[language] = {error["where"]: error["message"] for error in errors}
    assert messages["en"]["body.driver.plate"] == "This is not a licence plate."
    assert messages["pt-BR"]["body.email"] == "Isto não é um endereço de e-mail."
