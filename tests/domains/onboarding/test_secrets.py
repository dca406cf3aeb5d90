"""Personal data of sign-ups is not in logs, metrics, headers or problems."""

from uuid import UUID, uuid4

from catraca.platform.telemetry import render
from tests.domains.onboarding.harness import SignUpHarness, message, on_both_buses

pytestmark = on_both_buses

JSON = {"content-type": "application/json"}
NAME = "Severina Xavier"
TRACES = ("severina", "xavier", "sertao")


async def test_no_personal_data_leaks_wherever_a_sign_up_ends(harness: SignUpHarness) -> None:
    tag = uuid4().hex
    email, key = f"Severina.{tag}@sertao.example", f"severina-{tag}"
    answers = [
        await harness.post(NAME, email, key=key),
        await harness.post(NAME, f"{email}\u200f", key=key),
        await harness.post(f"{NAME}\n{NAME}", email),
        await harness.api.post("/v1/users", json={"name": NAME, "email": email, "nickname": NAME}),
        await harness.api.post("/v1/users", content=f'{{"name": "{NAME}", "email"', headers=JSON),
    ]
    assert [answer.status_code for answer in answers] == [200, 422, 422, 422, 400]
    id_, token = UUID(answers[0].json()["id"]), answers[0].json()["status_token"]
    rejected = UUID((await harness.post(NAME, email)).json()["id"])
    await harness.put(message(f'{{"name": "{NAME}", "email": "{email}"}}'.encode()))
    await harness.ingested(id_, rejected, dead=1)
    bearer = {"authorization": f"Bearer {token}"}
    answers.append(await harness.api.get(f"/v1/users/{id_}/status", headers=bearer))
    answers.append(await harness.api.get(f"/v1/users/{rejected}/status", headers=bearer))

    texts = [f"{answer.headers} {answer.text}" for answer in answers]
    texts += [render(None, "", dict(event)).decode() for event in harness.log]
    texts.append((await harness.api.get("/metrics")).text)
    headers = await harness.fetch(
        "SELECT headers::text FROM dead_letters UNION ALL SELECT headers::text FROM outbox"
    )
    texts += [row["headers"] for row in headers]
    bodies = await harness.fetch("SELECT body::text FROM outbox")
    texts += [row["body"] for row in bodies]
    for text in texts:
        assert not [trace for trace in TRACES if trace in text.lower()], text
    assert token in texts.pop(0)
    assert not [text for text in texts if token in text]
    assert any("message_dead" in text for text in texts), "the logs were searched too"
