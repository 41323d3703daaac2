"""Bodies of the REST API and messages of the live feed, shared by the API and its clients."""
