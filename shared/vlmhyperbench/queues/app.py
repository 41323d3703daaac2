"""The Celery app of senders and receivers, with settings under which a lost message does no harm."""

from __future__ import annotations

from celery import Celery

from vlmhyperbench.addresses import KEEP_ALIVE
from vlmhyperbench.queues.contracts import KEY_PREFIX

_CONNECT_S = 1.0
_SOCKET_S = 5.0


def make_app(redis_url: str) -> Celery:
    """Create an app for a broker without connecting. Messages are ids in JSON; no results, events or retries."""
    app = Celery("vlmhyperbench", broker=redis_url, set_as_current=False)
    app.conf.update(
        accept_content=["json"],
        task_serializer="json",
        task_ignore_result=True,
        task_acks_late=False,
        task_reject_on_worker_lost=False,
        task_publish_retry=False,
        task_create_missing_queues=True,
        worker_prefetch_multiplier=1,
        worker_disable_prefetch=True,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        worker_pool="solo",
        worker_concurrency=1,
        broker_pool_limit=1,
        broker_connection_timeout=_CONNECT_S,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "ack_emulation": False,
            "global_keyprefix": KEY_PREFIX,
            "socket_timeout": _SOCKET_S,
            "socket_connect_timeout": _CONNECT_S,
            "socket_keepalive": True,
            "socket_keepalive_options": KEEP_ALIVE,
            "health_check_interval": 5,
        },
    )
    return app
