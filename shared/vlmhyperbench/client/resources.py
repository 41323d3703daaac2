"""The calls of both clients, grouped into resources."""

from __future__ import annotations

from vlmhyperbench.client import calls, queries
from vlmhyperbench.client.handles import AsyncExperimentHandle, AsyncRunHandle, ExperimentHandle, RunHandle
from vlmhyperbench.client.methods import AsyncResource, HandleLater, HandleNow, Later, Now, Resource


class Runs(Resource):
    """Runs."""

    create = HandleNow(calls.create_run, RunHandle.bind)
    rescore = HandleNow(calls.rescore_run, RunHandle.bind)
    rerun = HandleNow(calls.rerun_run, RunHandle.bind)
    import_ = HandleNow(calls.import_run, RunHandle.bind)
    get = HandleNow(calls.get_run, RunHandle.bind)
    manifest = Now(calls.get_manifest)
    list = Now(calls.list_runs)
    rows = Now(queries.list_rows)
    columns = Now(queries.list_columns)
    labels = Now(queries.get_labels)
    label = Now(queries.change_labels)
    samples = Now(queries.list_samples)
    sample = Now(queries.get_sample)
    compare = Now(queries.compare_runs)
    points = Now(queries.points)
    logs = Now(queries.list_logs)
    log = Now(queries.read_log)
    resources = Now(queries.get_resources)
    cancel = Now(calls.cancel_run)
    pause = Now(calls.pause_run)
    resume = Now(calls.resume_run)
    retune = Now(calls.retune_run)


class AsyncRuns(AsyncResource):
    """Runs."""

    create = HandleLater(calls.create_run, AsyncRunHandle.bind)
    rescore = HandleLater(calls.rescore_run, AsyncRunHandle.bind)
    rerun = HandleLater(calls.rerun_run, AsyncRunHandle.bind)
    import_ = HandleLater(calls.import_run, AsyncRunHandle.bind)
    get = HandleLater(calls.get_run, AsyncRunHandle.bind)
    manifest = Later(calls.get_manifest)
    list = Later(calls.list_runs)
    rows = Later(queries.list_rows)
    columns = Later(queries.list_columns)
    labels = Later(queries.get_labels)
    label = Later(queries.change_labels)
    samples = Later(queries.list_samples)
    sample = Later(queries.get_sample)
    compare = Later(queries.compare_runs)
    points = Later(queries.points)
    logs = Later(queries.list_logs)
    log = Later(queries.read_log)
    resources = Later(queries.get_resources)
    cancel = Later(calls.cancel_run)
    pause = Later(calls.pause_run)
    resume = Later(calls.resume_run)
    retune = Later(calls.retune_run)


class Experiments(Resource):
    """Experiments."""

    create = HandleNow(calls.create_experiment, ExperimentHandle.bind)
    get = HandleNow(calls.get_experiment, ExperimentHandle.bind)
    list = Now(calls.list_experiments)
    cancel = Now(calls.cancel_experiment)
    pause = Now(calls.pause_experiment)
    resume = Now(calls.resume_experiment)


class AsyncExperiments(AsyncResource):
    """Experiments."""

    create = HandleLater(calls.create_experiment, AsyncExperimentHandle.bind)
    get = HandleLater(calls.get_experiment, AsyncExperimentHandle.bind)
    list = Later(calls.list_experiments)
    cancel = Later(calls.cancel_experiment)
    pause = Later(calls.pause_experiment)
    resume = Later(calls.resume_experiment)


class Api(Resource):
    """Resources that have only one or two calls."""

    health = Now(calls.health)
    ready = Now(calls.ready)
    identify = Now(calls.identify)
    results = Now(calls.list_results)
    leaderboard = Now(queries.leaderboard)
    evaluation = Now(calls.get_evaluation)
    workers = Now(calls.list_workers)
    release_device = Now(calls.release_device)
    quarantines = Now(calls.list_quarantines)
    drains = Now(calls.list_drains)
    drain = Now(calls.drain)
    undrain = Now(calls.undrain)
    storage = Now(calls.storage)
    stored_runs = Now(calls.list_stored_runs)
    move_runs = Now(calls.move_runs)
    pin_runs = Now(calls.pin_runs)
    plan = Now(calls.plan)
    create_join_token = Now(calls.create_join_token)
    join_tokens = Now(calls.list_join_tokens)
    revoke_join_token = Now(calls.revoke_join_token)
    registry = Now(calls.list_registry)
    registry_entry = Now(calls.get_registry_entry)
    upload_answers = Now(calls.upload_answers)
    artifacts = Now(calls.list_artifacts)
    artifact_content = Now(calls.artifact_content)
    image = Now(calls.get_image)
    report = Now(calls.get_report)
    browser_ticket = Now(calls.create_ticket)
    metrics = Now(calls.metrics)


class AsyncApi(AsyncResource):
    """Resources that have only one or two calls."""

    health = Later(calls.health)
    ready = Later(calls.ready)
    identify = Later(calls.identify)
    results = Later(calls.list_results)
    leaderboard = Later(queries.leaderboard)
    evaluation = Later(calls.get_evaluation)
    workers = Later(calls.list_workers)
    release_device = Later(calls.release_device)
    quarantines = Later(calls.list_quarantines)
    drains = Later(calls.list_drains)
    drain = Later(calls.drain)
    undrain = Later(calls.undrain)
    storage = Later(calls.storage)
    stored_runs = Later(calls.list_stored_runs)
    move_runs = Later(calls.move_runs)
    pin_runs = Later(calls.pin_runs)
    plan = Later(calls.plan)
    create_join_token = Later(calls.create_join_token)
    join_tokens = Later(calls.list_join_tokens)
    revoke_join_token = Later(calls.revoke_join_token)
    registry = Later(calls.list_registry)
    registry_entry = Later(calls.get_registry_entry)
    upload_answers = Later(calls.upload_answers)
    artifacts = Later(calls.list_artifacts)
    artifact_content = Later(calls.artifact_content)
    image = Later(calls.get_image)
    report = Later(calls.get_report)
    browser_ticket = Later(calls.create_ticket)
    metrics = Later(calls.metrics)
