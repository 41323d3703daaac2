"""Tests with real Docker and Apptainer; `make containers` installs what they need, and without it they are skipped."""
