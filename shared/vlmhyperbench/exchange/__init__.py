"""Files of other tools: answers are read from them and written to them. No server, no network."""
