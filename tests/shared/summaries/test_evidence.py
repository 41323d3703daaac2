"""What a run's evidence says of itself."""

from __future__ import annotations

from tests.shared.reports.builders import evidence


def test_other_columns_of_few_values_are_group_columns_too() -> None:
    facts = evidence().facts
    facts = facts.with_columns(
        facts["key"].alias("group.key"),
        facts["status"].replace("ok", "fine").replace("error", "fine").alias("group.same"),
    )
    assert evidence(facts=facts).groups == ("doc_class", "question_type", "key")
