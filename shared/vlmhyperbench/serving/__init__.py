"""A pipeline served like one model: a process that a gateway starts as its engine, and that asks other gateways."""
