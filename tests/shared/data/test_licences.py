"""Under which licence a model is, by its card or by the text of its licence; unknown where neither says it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from vlmhyperbench.data.licences import MAX_BYTES, licence_in, licence_of_card

MIT = "Copyright (c) 2026 Somebody\n\nPermission is hereby granted, free of charge, to any person\nto deal without "
MIT += "restriction"
BSD = "Copyright 2026\n\nRedistribution and use in source and binary forms, with or without modification, are permitted"
APACHE = "\n                        Apache License\n                  Version 2.0, January 2004\n"


@pytest.mark.parametrize(
    ("files", "licence"),
    [
        ({}, None),
        ({"README.md": "# A model"}, None),
        ({"README.md": "---\nlicense: apache-2.0\n---\n# A model"}, "apache-2.0"),
        ({"README.md": "\ufeff---\r\nlicense: mit\r\n---\r\n"}, "mit"),
        ({"README.md": "---\nlicense: other\nlicense_name: llama3.2\n---\n"}, "llama3.2"),
        ({"README.md": "---\nlicense: other\n---\n", "LICENSE": MIT}, "other"),
        ({"README.md": "---\nlicense: [mit, apache-2.0]\n---\n"}, "mit, apache-2.0"),
        ({"README.md": "---\nlanguage: en\n---\n", "LICENSE.txt": MIT}, "MIT"),
        ({"LICENSE": APACHE}, "Apache-2.0"),
        ({"LICENCE": BSD}, "BSD-2-Clause"),
        ({"COPYING": f"{BSD} Neither the name of the holder"}, "BSD-3-Clause"),
        (
            {"LICENSE": "\n  EXAMPLE COMMUNITY LICENSE \x1b[31m AGREEMENT\nVersion"},
            "EXAMPLE COMMUNITY LICENSE [31m AGREEMENT",
        ),
        ({"LICENSE": "", "LICENSE.md": MIT}, "MIT"),
        ({"README.md": "---\nlicense: {a: b}\n---\n"}, None),
        ({"README.md": "---\nlicense: [\n---\n"}, None),
        ({"README.md": f"---\n{'[' * 9000}\n---\n"}, None),
        ({"README.md": f"---\nlicense: {'a' * 300}\n---\n"}, "a" * 100),
        ({"README.md": f"---\n#{' ' * MAX_BYTES}\nlicense: mit\n---\n"}, None),
    ],
)
def test_the_licence_is_that_of_the_card_or_of_its_text(
    files: Mapping[str, str], licence: str | None, tmp_path: Path
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content.encode())
    (tmp_path / "LICENSES").mkdir()
    assert licence_in(tmp_path) == licence


def test_a_card_of_a_hub_is_read_by_the_same_rule() -> None:
    assert licence_of_card({"license": "other", "license_name": "gemma"}) == "gemma"
    assert licence_of_card({"license": 3}) is None
