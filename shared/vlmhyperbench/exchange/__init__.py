"""Import answers from files of other tools, and export runs in their formats. No server, no network."""
