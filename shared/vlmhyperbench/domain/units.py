"""Units of time: instants and durations are nanoseconds; output for users and limits use milliseconds and seconds."""

from __future__ import annotations

from typing import Final

NS_PER_MS: Final = 1e6
NS_PER_S: Final = 1e9
