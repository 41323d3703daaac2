"""From answers to measures: what is read out of an answer, who is to blame for none, what a metric makes of it."""
