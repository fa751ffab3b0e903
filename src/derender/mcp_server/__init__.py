"""The MCP server: documents for agents over standard input and output. `derender mcp` starts it; needs the extra `mcp`.

Import from the modules. The folder is not called `mcp`, so that nobody mistakes it for the SDK, which has that name.
"""
