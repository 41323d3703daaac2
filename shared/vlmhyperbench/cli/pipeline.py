"""`pipeline`: commands of pipelines of models."""

from __future__ import annotations

from cyclopts import App

from vlmhyperbench.cli.pipeline_serving import serve

app = App(name="pipeline", help="Serve a pipeline of models at an OpenAI-compatible URL.")
app.command(serve)
