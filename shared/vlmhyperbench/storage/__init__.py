"""Storage of files that are too large for a table row: written once under a key and verified when they are read."""

from vlmhyperbench.storage.door import STORAGE_SCHEME, Storage, StorageLocation, open_storage
from vlmhyperbench.storage.holds import holding
from vlmhyperbench.storage.stores import Store, Stored

__all__ = ["STORAGE_SCHEME", "Storage", "StorageLocation", "Store", "Stored", "holding", "open_storage"]
