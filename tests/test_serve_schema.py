"""The OpenAPI document against the service: schemathesis sends what it allows, and what it does not."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from serve_helpers import EchoRecogniser
from serve_helpers import settings as serve_settings

pytest.importorskip("fastapi", reason="the extra serve is not installed")
schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")

from schemathesis.checks import not_a_server_error  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from derender.serve.app import create_app  # noqa: E402

app = create_app(serve_settings(), EchoRecogniser)
app.state.service.start()
app.state.service.host.warmed.wait(10)


async def running(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
    """The app, started once above: schemathesis would start and stop it around every call."""
    if scope["type"] == "lifespan":
        for done in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{done}.complete"})
        return
    await app(scope, receive, send)


schema = schemathesis.openapi.from_asgi("/openapi.json", running, headers={"Host": "127.0.0.1"})
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@schema.parametrize()
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_every_endpoint_answers_as_it_says(case) -> None:  # type: ignore[no-untyped-def]
    case.call_and_validate(checks=CHECKS, headers={"Host": "127.0.0.1"})
