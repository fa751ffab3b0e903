"""What holds for all tests: one processor thread for PyTorch and ONNX Runtime's operators. The networks of tests are so
small that threads only wait for one another, and on a busy machine that makes them many times slower."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
