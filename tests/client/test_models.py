"""The models of the client, which are generated from the OpenAPI document."""

from catraca.client import models
from tools.client_models import MODELS, TARGET, generated, openapi_document


async def test_models_match_the_openapi_document() -> None:
    assert TARGET.read_text() == generated(await openapi_document()), "run `make client`"


def test_every_named_model_is_generated() -> None:
    assert [name for name in MODELS if not hasattr(models, name)] == []
