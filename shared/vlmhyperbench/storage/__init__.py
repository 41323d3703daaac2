"""Where files live that are larger than a row: written once under a key, read through one door that verifies."""

from vlmhyperbench.storage.door import STORAGE_SCHEME, Storage, open_storage
from vlmhyperbench.storage.stores import Store, Stored

__all__ = ["STORAGE_SCHEME", "Storage", "Store", "Stored", "open_storage"]
