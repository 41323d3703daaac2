"""The scores of an imported file are a metric like ours: a value, or a reason why there is none."""

from __future__ import annotations

import pytest

from vlmhyperbench.scoring.metrics import open_metric
from vlmhyperbench.scoring.reported import is_reported, reported_metric
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonObject

ACC = reported_metric("acc")


def values(*metadata: JsonObject) -> list[float | None]:
    measures = open_metric(ACC).measure(["x"] * len(metadata), [[]] * len(metadata), metadata=metadata)
    assert [reason is None for reason in measures.reasons] == [value is not None for value in measures.values]
    return list(measures.values)


def test_the_number_in_the_file_is_the_value() -> None:
    assert values({"reported": {"acc": 0.5, "f1": 1}}, {"reported": {"acc": 1}}) == [0.5, 1.0]
    assert is_reported(ACC)
    assert not is_reported(ACC.model_copy(update={"class_path": "anls"}))


@pytest.mark.parametrize(
    "metadata",
    [{}, {"reported": 1}, {"reported": {"f1": 1}}, *({"reported": {"acc": odd}} for odd in (None, True, "1", 1e999))],
)
def test_what_is_no_number_there_is_unscored(metadata: JsonObject) -> None:
    assert values(metadata) == [None]


def test_a_group_is_the_mean_of_what_is_reported() -> None:
    metric = open_metric(ACC)
    measures = metric.measure(["", "", ""], [[], [], []], metadata=[{"reported": {"acc": n}} for n in (1, 0.5, None)])
    sums = {name: sum(column) for name, column in measures.statistics.items()}
    assert metric.combine(sums) == 0.75
    assert metric.combine({}) is None
    assert metric.measure([""], [[]]).reasons == ["not_reported"]


def test_it_has_one_profile() -> None:
    with pytest.raises(InvalidInput, match="no profile 'v2'"):
        open_metric(ACC.model_copy(update={"profile": "v2"}))
