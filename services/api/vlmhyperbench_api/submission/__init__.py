"""Submit runs and experiments: resolve names to pinned specs, then write everything in one transaction."""

from vlmhyperbench_api.submission.request import ChildSubmission, Submission
from vlmhyperbench_api.submission.submitting import (
    publish_all,
    submit_experiment,
    submit_import,
    submit_rerun,
    submit_rescoring,
    submit_run,
    submit_session,
    submit_session_rerun,
)

__all__ = [
    "ChildSubmission",
    "Submission",
    "publish_all",
    "submit_experiment",
    "submit_import",
    "submit_rerun",
    "submit_rescoring",
    "submit_run",
    "submit_session",
    "submit_session_rerun",
]
