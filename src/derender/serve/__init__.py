"""The HTTP service: FastAPI app, one engine for all clients, rendering in worker processes, jobs in SQLite.

Import from the modules; `derender.serve.app.create_app` makes the app. Needs the extra `serve`.
"""
