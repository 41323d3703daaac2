"""The chapters of a report: each a pure function of summaries, and of the evidence where one shows single samples."""
