"""The calls of both clients, grouped into resources."""

from __future__ import annotations

from vlmhyperbench.client import access, asking, calls, entries, model_calls, queries
from vlmhyperbench.client.handles import AsyncExperimentHandle, AsyncRunHandle, ExperimentHandle, RunHandle
from vlmhyperbench.client.methods import AsyncResource, HandleLater, HandleNow, Later, Now, Resource


class Runs(Resource):
    """Runs."""

    create = HandleNow(calls.create_run, RunHandle.bind)
    plan = Now(calls.plan_run)
    entry = Now(calls.get_entry)
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
    figures = Now(entries.list_run_figures)
    figure = Now(entries.get_run_figure)
    cancel = Now(calls.cancel_run)
    pause = Now(calls.pause_run)
    resume = Now(calls.resume_run)
    retune = Now(calls.retune_run)


class AsyncRuns(AsyncResource):
    """Runs."""

    create = HandleLater(calls.create_run, AsyncRunHandle.bind)
    plan = Later(calls.plan_run)
    entry = Later(calls.get_entry)
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
    figures = Later(entries.list_run_figures)
    figure = Later(entries.get_run_figure)
    cancel = Later(calls.cancel_run)
    pause = Later(calls.pause_run)
    resume = Later(calls.resume_run)
    retune = Later(calls.retune_run)


class Experiments(Resource):
    """Experiments."""

    create = HandleNow(calls.create_experiment, ExperimentHandle.bind)
    get = HandleNow(calls.get_experiment, ExperimentHandle.bind)
    list = Now(calls.list_experiments)
    figures = Now(entries.list_experiment_figures)
    figure = Now(entries.get_experiment_figure)
    cancel = Now(calls.cancel_experiment)
    pause = Now(calls.pause_experiment)
    resume = Now(calls.resume_experiment)


class AsyncExperiments(AsyncResource):
    """Experiments."""

    create = HandleLater(calls.create_experiment, AsyncExperimentHandle.bind)
    get = HandleLater(calls.get_experiment, AsyncExperimentHandle.bind)
    list = Later(calls.list_experiments)
    figures = Later(entries.list_experiment_figures)
    figure = Later(entries.get_experiment_figure)
    cancel = Later(calls.cancel_experiment)
    pause = Later(calls.pause_experiment)
    resume = Later(calls.resume_experiment)


class Entries(Resource):
    """Registry entries, of files and of the database."""

    make = Now(entries.make_entry)
    get = Now(entries.get_entry)
    replace = Now(entries.replace_entry)
    patch = Now(entries.patch_entry)
    archive = Now(entries.archive_entry)
    versions = Now(entries.list_versions)
    version = Now(entries.get_version)


class Loads(Resource):
    """Loads: measurements of endpoints."""

    start = Now(entries.start_load)
    list = Now(entries.list_loads)
    get = Now(entries.get_load)
    cancel = Now(entries.cancel_load)


class Sessions(Resource):
    """Questions to pipelines."""

    ask = HandleNow(asking.ask, RunHandle.bind)
    ask_again = HandleNow(asking.ask_again, RunHandle.bind)
    list = Now(asking.list_sessions)
    get = Now(asking.get_session)
    export = Now(asking.export_session)


class AsyncSessions(AsyncResource):
    """Questions to pipelines."""

    ask = HandleLater(asking.ask, AsyncRunHandle.bind)
    ask_again = HandleLater(asking.ask_again, AsyncRunHandle.bind)
    list = Later(asking.list_sessions)
    get = Later(asking.get_session)
    export = Later(asking.export_session)


class Pipelines(Resource):
    """Registered pipelines, and drafts."""

    list = Now(asking.list_pipelines)
    check = Now(asking.check_pipeline)
    plan = Now(asking.plan_pipeline)


class AsyncPipelines(AsyncResource):
    """Registered pipelines, and drafts."""

    list = Later(asking.list_pipelines)
    check = Later(asking.check_pipeline)
    plan = Later(asking.plan_pipeline)


class Exports(Resource):
    """Exports that the platform writes."""

    ask = Now(entries.ask_for_export)
    list = Now(entries.list_exports)
    get = Now(entries.get_export)
    cancel = Now(entries.cancel_export)
    content = Now(entries.export_content)


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
    models = Now(model_calls.list_models)
    model = Now(model_calls.get_model)
    estimate_model = Now(model_calls.estimate_model)
    load_model = Now(model_calls.load_model)
    unload_model = Now(model_calls.unload_model)
    drains = Now(calls.list_drains)
    drain = Now(calls.drain)
    undrain = Now(calls.undrain)
    storage = Now(calls.storage)
    stored_runs = Now(calls.list_stored_runs)
    move_runs = Now(calls.move_runs)
    pin_runs = Now(calls.pin_runs)
    plan = Now(calls.plan)
    schema = Now(calls.get_schema)
    parse_entry = Now(calls.parse_entry)
    create_join_token = Now(calls.create_join_token)
    join_tokens = Now(calls.list_join_tokens)
    revoke_join_token = Now(calls.revoke_join_token)
    tasks = Now(entries.list_tasks)
    registry = Now(calls.list_registry)
    registry_entry = Now(calls.get_registry_entry)
    upload_answers = Now(calls.upload_answers)
    artifacts = Now(calls.list_artifacts)
    artifact_content = Now(calls.artifact_content)
    image = Now(calls.get_image)
    report = Now(calls.get_report)
    browser_ticket = Now(calls.create_ticket)
    keys = Now(access.list_keys)
    create_key = Now(access.create_key)
    revoke_key = Now(access.revoke_key)
    diagnosis = Now(access.diagnose)
    metrics = Now(calls.metrics)


class AsyncEntries(AsyncResource):
    """Registry entries, of files and of the database."""

    make = Later(entries.make_entry)
    get = Later(entries.get_entry)
    replace = Later(entries.replace_entry)
    patch = Later(entries.patch_entry)
    archive = Later(entries.archive_entry)
    versions = Later(entries.list_versions)
    version = Later(entries.get_version)


class AsyncLoads(AsyncResource):
    """Loads: measurements of endpoints."""

    start = Later(entries.start_load)
    list = Later(entries.list_loads)
    get = Later(entries.get_load)
    cancel = Later(entries.cancel_load)


class AsyncExports(AsyncResource):
    """Exports that the platform writes."""

    ask = Later(entries.ask_for_export)
    list = Later(entries.list_exports)
    get = Later(entries.get_export)
    cancel = Later(entries.cancel_export)
    content = Later(entries.export_content)


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
    models = Later(model_calls.list_models)
    model = Later(model_calls.get_model)
    estimate_model = Later(model_calls.estimate_model)
    load_model = Later(model_calls.load_model)
    unload_model = Later(model_calls.unload_model)
    drains = Later(calls.list_drains)
    drain = Later(calls.drain)
    undrain = Later(calls.undrain)
    storage = Later(calls.storage)
    stored_runs = Later(calls.list_stored_runs)
    move_runs = Later(calls.move_runs)
    pin_runs = Later(calls.pin_runs)
    plan = Later(calls.plan)
    schema = Later(calls.get_schema)
    parse_entry = Later(calls.parse_entry)
    create_join_token = Later(calls.create_join_token)
    join_tokens = Later(calls.list_join_tokens)
    revoke_join_token = Later(calls.revoke_join_token)
    tasks = Later(entries.list_tasks)
    registry = Later(calls.list_registry)
    registry_entry = Later(calls.get_registry_entry)
    upload_answers = Later(calls.upload_answers)
    artifacts = Later(calls.list_artifacts)
    artifact_content = Later(calls.artifact_content)
    image = Later(calls.get_image)
    report = Later(calls.get_report)
    browser_ticket = Later(calls.create_ticket)
    keys = Later(access.list_keys)
    create_key = Later(access.create_key)
    revoke_key = Later(access.revoke_key)
    diagnosis = Later(access.diagnose)
    metrics = Later(calls.metrics)
