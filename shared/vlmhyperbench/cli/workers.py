"""`workers`: what a person does with the workers of a stack."""

from __future__ import annotations

from cyclopts import App

from vlmhyperbench.cli import join_tokens

app = App(name="workers", help="Make, list and revoke the tokens by which workers of other machines join.")
app.command(join_tokens.app)
