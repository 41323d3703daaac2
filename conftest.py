"""What every test of the workspace shares: real servers as fixtures, verdicts that no machine's speed decides."""

from hypothesis import settings

pytest_plugins = ["tests.support.servers", "tests.support.stack"]

settings.register_profile("house", deadline=None)
settings.load_profile("house")
