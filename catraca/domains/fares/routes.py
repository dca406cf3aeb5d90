"""HTTP for fares: quotes."""

from typing import Annotated

from fastapi import Depends

from catraca.domains.fares.model import Tariff
from catraca.domains.fares.schemas import QuoteIn, QuoteOut
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import Staged, make_router, wired

Prices = Annotated[Tariff, Depends(wired(Tariff))]

router = make_router(prefix="/v1", route_class=Staged)
ROUTERS = [router]


@router.post("/quotes", tags=["rides"], summary="Quote a fare", responses=problems(401, 422))
async def quote(body: QuoteIn, caller: Caller, prices: Prices) -> QuoteOut:
    """Returns distance, duration and fare. A ride requested now with the same ends costs the same."""
    return QuoteOut.of(body.trip(), prices)
