"""Makes the tower's ONNX file from the recogniser that the rapidocr package ships (PP-OCRv6 small, Apache-2.0).

Cuts the graph before the CTC head's product, keeps the head, and adds softmax and top-k, so that one run gives the
columns and the best classes of each. Weights are stored as float16.

    python -m derender.train.build_tower OUT.onnx
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from derender.errors import ModelError
from derender.model.graph import store_half

COLUMNS = "p2o.pd_op.transpose.8.0"
PROBS = "fetch_name_0"
HEAD = "linear_8.w_0"
TOP = 4


def source_model() -> Path:
    """The recognition model inside the installed rapidocr package."""
    import rapidocr

    return Path(rapidocr.__file__).parent / "models" / "PP-OCRv6_rec_small.onnx"


def build(out: Path, half: bool = True) -> None:
    """Writes the tower: input x (N, 3, 48, W); outputs columns (N, W/8, 120), prob and class (N, W/8, 4)."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    model = onnx.load(source_model())
    graph = model.graph
    graph.initializer.append(numpy_helper.from_array(np.array([TOP], np.int64), "top_k"))
    graph.node.append(helper.make_node("TopK", [PROBS, "top_k"], ["prob", "class"], axis=-1, name="top"))
    graph.node.append(helper.make_node("Identity", [COLUMNS], ["columns"], name="columns_out"))
    del graph.output[:]
    for name, kind in (("columns", TensorProto.FLOAT), ("prob", TensorProto.FLOAT), ("class", TensorProto.INT64)):
        graph.output.append(helper.make_tensor_value_info(name, kind, None))
    if half:
        store_half(model)
    onnx.save(model, str(out))


def ctc_head(path: Path) -> Any:
    """(120, classes) float32 weight of the CTC head in a tower file made with half=False or True."""
    import numpy as np
    import onnx
    from onnx import numpy_helper

    for tensor in onnx.load(path).graph.initializer:
        if tensor.name in (HEAD, f"{HEAD}_half"):
            return numpy_helper.to_array(tensor).astype(np.float32)
    raise ModelError(f"{path.name} holds no CTC head")


if __name__ == "__main__":
    build(Path(sys.argv[1]))
