"""The one way in which derender opens an ONNX model: on the CPU, with memory that does not grow with the pages read.

Input sizes differ from page to page. ONNX Runtime's arena would keep the largest buffers for ever, and its memory plans
would add one for every new combination of sizes: 14 MB a page in OCR mode (docs/diary.md). Both are off. Does not know
what a model computes and does not check files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


def open_session(path: Path, threads: int, log_level: int = 3) -> Any:
    """An onnxruntime.InferenceSession. threads: within one call; log_level: 3 errors, 4 only what is fatal."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = log_level
    options.enable_cpu_mem_arena = False
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
