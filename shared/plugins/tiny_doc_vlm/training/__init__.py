"""How the model of this package is trained, exported and evaluated; no part of the wheel."""
