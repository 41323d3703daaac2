"""Certificates of engines: checked and measured in one environment on one machine, stored, and required by runs."""
