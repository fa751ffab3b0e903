"""MinerU-Diffusion-V1 (2.5B, arXiv 2603.22458) on our decoder and engine: loading, reading, layout, and its clients.

The checkpoint's decoder is our own code (decoder.py); its vision transformer is that of the transformers package
(vision.py). Needs derender[torch]. Holds no weights: store.py says where they lie.
"""
