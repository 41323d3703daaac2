"""The application: routers, limits, error handlers, and the resources opened at start-up."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version

import uvicorn
from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware

from vlmhyperbench.accounts.keeping import keep
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.schema import check_schema
from vlmhyperbench.errors import InvalidInput, Unavailable
from vlmhyperbench.logs.clients import quiet_client_errors, raise_open_files
from vlmhyperbench.registry.roots import registry_roots
from vlmhyperbench.runtime import open_runtime, service
from vlmhyperbench.settings import Settings
from vlmhyperbench_api import (
    answers,
    artifacts,
    asking,
    comparisons,
    doctor,
    drains,
    errors,
    evaluations,
    experiments,
    exports,
    figures,
    health,
    ids,
    images,
    joining,
    keys,
    listings,
    live,
    live_events,
    loads,
    manifests,
    metrics,
    models,
    pages,
    pipelines,
    plans,
    recorded,
    registry,
    reports,
    results,
    run_plans,
    runs,
    sample_details,
    sample_rows,
    saved_views,
    sessions,
    spa,
    storage,
    tasks,
    workers,
)
from vlmhyperbench_api.answer_files import AnswerFiles
from vlmhyperbench_api.attempts import Attempts
from vlmhyperbench_api.caching import Conditional
from vlmhyperbench_api.catalogue import Registries
from vlmhyperbench_api.connections import bounded_protocol
from vlmhyperbench_api.exporting import keep_exporting
from vlmhyperbench_api.feed import Feed
from vlmhyperbench_api.limits import MAX_ANSWERS_BYTES, Limits
from vlmhyperbench_api.replicas import ReadAgain
from vlmhyperbench_api.sample_tables import SampleTables
from vlmhyperbench_api.security import check_policies
from vlmhyperbench_api.target_names import TargetNames
from vlmhyperbench_api.thumbnails import Thumbnails
from vlmhyperbench_api.watching import Watching

PREFIX = "/api/v1"
MIN_COMPRESSED_BYTES = 2048
"""A smaller body gains nothing by compression."""
_MAX_LIVE_MESSAGE_BYTES = 64 * 1024

_ROUTERS = (
    health.router,
    listings.router,
    run_plans.router,
    runs.router,
    manifests.router,
    loads.router,
    images.router,
    figures.router,
    comparisons.router,
    recorded.router,
    sample_rows.router,
    sample_details.router,
    answers.router,
    asking.router,
    experiments.router,
    exports.router,
    ids.router,
    results.router,
    evaluations.router,
    drains.router,
    models.router,
    pipelines.router,
    plans.router,
    workers.router,
    joining.router,
    registry.router,
    tasks.router,
    reports.router,
    artifacts.router,
    live.router,
    live_events.router,
    sessions.router,
    keys.router,
    saved_views.router,
    doctor.router,
    storage.router,
)


def create_app(settings: Settings) -> FastAPI:
    """Create the application; its resources are opened only at start-up.

    Raises:
        RuntimeError: a route declares no policy.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        quiet_client_errors()
        async with open_runtime(settings, name="api") as runtime:
            app.state.runtime = runtime
            app.state.registries = Registries(
                registry_roots(settings.registries, settings.home),
                run_mode=settings.run_mode,
                database=runtime.database,
            )
            app.state.feed = Feed(runtime)
            app.state.sample_tables = SampleTables(runtime.storage)
            app.state.thumbnails = Thumbnails(runtime.storage)
            app.state.target_names = TargetNames()
            app.state.attempts = Attempts()
            app.state.metrics = metrics.PlatformMetrics(runtime)
            app.state.answer_files = AnswerFiles(runtime.storage)
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(app.state.feed.run()),
                    group.create_task(keep_exporting(runtime)),
                    group.create_task(keep(runtime.database, redis_url=settings.redis_url.get_secret_value())),
                ]
                yield
                for task in tasks:
                    task.cancel()

    check_policies((*_ROUTERS, metrics.router, pages.router, spa.router, spa.pages))
    app = FastAPI(
        title="VLMHyperBench",
        version=version("vlmhyperbench-api"),
        summary="Benchmark vision-language models: quality, speed, memory and cost of the same answers.",
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for router in _ROUTERS:
        app.include_router(router, prefix=PREFIX)
    app.include_router(metrics.router)
    app.include_router(pages.router)
    app.include_router(spa.router)
    app.include_router(spa.pages)
    errors.install(app)
    app.add_middleware(ReadAgain)
    app.add_middleware(Conditional, prefix=PREFIX)
    app.add_middleware(GZipMiddleware, minimum_size=MIN_COMPRESSED_BYTES, compresslevel=5)
    app.add_middleware(
        Limits, body_s=settings.timers.request_s, larger={f"{PREFIX}{answers.router.prefix}": MAX_ANSWERS_BYTES}
    )
    app.add_middleware(Watching)
    return app


def main() -> int:
    """Serve the REST API and the live feed until SIGTERM."""
    with service("api", main.__doc__) as settings:
        asyncio.run(_check_schema(settings))
        return serve(settings)


async def _check_schema(settings: Settings) -> None:
    """Refuse a database whose schema is another version's; one that does not answer is asked by every request.

    Raises:
        NotReady: the schema differs.
    """
    if url := settings.database_url.get_secret_value():
        database = Database(url, name="api-start")
        try:
            with suppress(Unavailable):
                await check_schema(database)
        finally:
            await database.close()


def serve(settings: Settings) -> int:
    """Serve until a signal arrives; return the exit code."""
    raise_open_files()
    check_certificate(settings)
    server = uvicorn.Server(server_config(settings))
    server.run()
    return 0 if server.started else 3


def check_certificate(settings: Settings) -> None:
    """Check that the certificate of the API and its key can be used, if there are any.

    Raises:
        InvalidInput: they cannot be read, or do not belong together.
    """
    if settings.api_tls_cert is None or settings.api_tls_key is None:
        return
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(settings.api_tls_cert, settings.api_tls_key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(
            f"The certificate {settings.api_tls_cert} with the key {settings.api_tls_key} cannot be used: "
            f"{error.strerror or error}.",
            cure="Correct VLMHB_API_TLS_CERT and VLMHB_API_TLS_KEY: both are PEM, and the key is that of the first "
            "certificate.",
            code="api_certificate",
        ) from error


def server_config(settings: Settings) -> uvicorn.Config:
    """Return uvicorn's configuration of the application."""
    return uvicorn.Config(
        create_app(settings),
        host=settings.api_host,
        port=settings.api_port,
        ssl_certfile=settings.api_tls_cert,
        ssl_keyfile=settings.api_tls_key,
        http=bounded_protocol(settings.timers.request_s),
        log_config=None,
        access_log=False,
        server_header=False,
        ws_max_size=_MAX_LIVE_MESSAGE_BYTES,
        timeout_graceful_shutdown=5,
        proxy_headers=False,
    )
