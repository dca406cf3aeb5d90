"""The baseline without rows, numbers and users: uvicorn, a list of sockets, a loop that sends to all."""

import asyncio
from time import monotonic

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

sockets: list[WebSocket] = []


async def join(socket: WebSocket) -> None:
    await socket.accept()
    sockets.append(socket)
    try:
        await socket.receive()
    except WebSocketDisconnect:
        pass
    finally:
        sockets.remove(socket)


async def broadcast(request: Request) -> JSONResponse:
    """Send the body to all sockets, `times` times."""
    frame = (await request.body()).decode()
    began_at = monotonic()
    for _ in range(int(request.query_params["times"])):
        for socket in sockets:
            await socket.send_text(frame)
        await asyncio.sleep(0)
    return JSONResponse({"began_at": began_at})


def serve(port: int) -> None:
    app = Starlette(routes=[WebSocketRoute("/v1/ws", join), Route("/broadcast", broadcast, methods=["POST"])])
    uvicorn.run(
        app,
        port=port,
        http="httptools",
        loop="uvloop",
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        log_level="warning",
        access_log=False,
    )
