"""The decoding engine: protocol (what a network must do), rules, sampling, guards, config, modes, engine.

Numpy only. Import from the modules; nothing is re-exported here, so that the protocol stays light to import.
"""
