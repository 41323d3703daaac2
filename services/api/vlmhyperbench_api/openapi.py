"""`python -m vlmhyperbench_api.openapi [PATH]`: write the OpenAPI document, which a test compares with the code."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from fastapi.openapi.utils import get_openapi

from vlmhyperbench.settings import Settings
from vlmhyperbench_api.main import create_app


def description() -> str:
    """Return the OpenAPI document as text, the same on every machine."""
    app = create_app(Settings.model_construct())
    document = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
    _describe_keys(document)
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _describe_keys(document: dict[str, Any]) -> None:
    """Declare which routes need a key: all except those of health."""
    document.setdefault("components", {})["securitySchemes"] = {
        "ApiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"}
    }
    document["security"] = [{"ApiKey": []}]
    for path, operations in document["paths"].items():
        if path.endswith(("/health", "/ready")):
            for operation in operations.values():
                operation["security"] = []


def main(arguments: list[str]) -> int:
    """Write the document to a file, or to stdout."""
    text = description()
    if arguments:
        Path(arguments[0]).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
