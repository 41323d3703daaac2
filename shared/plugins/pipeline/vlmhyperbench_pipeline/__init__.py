"""Aggregation of the answers of several members into one: concat, vote, synthesis, template."""
