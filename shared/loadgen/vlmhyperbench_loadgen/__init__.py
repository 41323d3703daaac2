"""The load generator: a process that sends planned requests and records when every byte arrived."""
