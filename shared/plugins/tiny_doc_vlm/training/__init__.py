"""Training, export and evaluation of the model of this package; not part of the wheel."""
