"""Change the images of a chat request, and nothing else of it."""

from __future__ import annotations

from collections.abc import Callable

from vlmhyperbench_sdk.types import JsonObject, JsonValue


def map_images(request: JsonObject, change: Callable[[str], str]) -> JsonObject:
    """Return the request with the URL of every image replaced by `change(url)`; nothing else is touched.

    Malformed parts are left as they are: the adapter's check names them.
    """
    messages = request.get("messages")
    if not isinstance(messages, list):
        return request
    return {**request, "messages": [_map_message(message, change) for message in messages]}


def _map_message(message: JsonValue, change: Callable[[str], str]) -> JsonValue:
    if not isinstance(message, dict) or not isinstance(message.get("content"), list):
        return message
    return {**message, "content": [_map_part(part, change) for part in message["content"]]}


def _map_part(part: JsonValue, change: Callable[[str], str]) -> JsonValue:
    image = part.get("image_url") if isinstance(part, dict) else None
    if not isinstance(part, dict) or not isinstance(image, dict) or not isinstance(image.get("url"), str):
        return part
    options = {name: value for name, value in image.items() if name not in {"url", "media_type"}}
    return {**part, "image_url": {"url": change(image["url"]), **options}}
