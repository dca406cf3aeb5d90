"""HTTP for people: translate, authorise, call one verb."""

from fastapi import APIRouter
from pydantic import BaseModel

from catraca.platform.http.caller import Caller
from catraca.platform.http.route import OpenDb, UnitOfWork

router = APIRouter(prefix="/v1", tags=["people"], route_class=UnitOfWork)


class MeOut(BaseModel):
    id: str


@router.get("/me")
async def read_me(db: OpenDb, caller: Caller) -> MeOut:
    return MeOut(id=str(caller.id))
