"""The command line: each command parses its arguments, calls another room, and prints the result."""
