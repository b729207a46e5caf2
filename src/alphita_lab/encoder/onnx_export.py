"""A BERT written out as an ONNX graph, in fp32 or int8, straight from its weights; rows of one length, so no mask.

In int8 every matrix has a scale a column, every token one of its own: a vector does not depend on what else is in its
batch. Part of each channel's range goes into the next matrix (SmoothQuant, ICML 2023, eq. 4 with alpha 0.5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from alphita import artefact
from alphita.encoder import layout
from alphita.encoder.layout import ModelSettings
from alphita.errors import InputError, require

if TYPE_CHECKING:
    from alphita_lab.encoder.torch_runtime import TorchRuntime

FILES = layout.ONNX_FILES
OPSET = 17
IR_VERSION = 8
CONTRIB = "com.microsoft"
# int8 sums are of unsigned states times signed weights, the pairing that processors multiply fastest.
MIDDLE = 128
# GELU's values lie above -0.17: their zero is low, so that most steps are left for the positive ones.
GELU_ZERO, GELU_LEAST = 24, 0.17


def write(
    runtime: TorchRuntime, settings: ModelSettings, folder: Path, *, precision: str, examples: Sequence[Sequence[int]]
) -> Path:
    """Write the model of `runtime` as FILES[precision] into `folder`."""
    require("onnx", "train")
    config = runtime.config
    if not runtime.exportable:
        raise InputError("only BERT and RoBERTa models with GELU can be exported to ONNX", value=runtime.kind)
    first = 0 if config.model_type == "bert" else config.pad_token_id + 1
    model = build(
        runtime.weights(),
        settings.pooling,
        heads=config.num_attention_heads,
        layers=config.num_hidden_layers,
        eps=config.layer_norm_eps,
        first_position=first,
        peaks=runtime.peaks(examples) if precision == "int8" else None,
    )
    for key, value in {
        "weights_hash": runtime.weights_hash(),
        "precision": precision,
        "pooling": settings.pooling,
        "dim": str(runtime.dim),
    }.items():
        model.metadata_props.add(key=key, value=value)
    file = folder / FILES[precision]
    file.parent.mkdir(exist_ok=True)
    with artefact.atomic_file(file) as out:
        out.write(model.SerializeToString())
    return file


def build(
    weights: Mapping[str, NDArray[np.float32]],
    pooling: str,
    *,
    heads: int,
    layers: int,
    eps: float,
    first_position: int,
    peaks: Mapping[str, NDArray[np.float32]] | None,
) -> Any:  # noqa: ANN401 - an onnx.ModelProto
    """Return the ONNX model: input_ids (rows, length) int64, rows of one length -> vectors (rows, dim) float32."""
    from onnx import TensorProto, helper

    graph = _Graph(peaks, eps)
    dim = weights["embeddings.word_embeddings.weight"].shape[1]
    graph.constant("flat_shape", np.array([-1, dim]))
    graph.node("Shape", ["input_ids"], "ids_shape")
    graph.node("Concat", ["ids_shape", graph.constant("dim", np.array([dim]))], "states_shape", axis=0)
    hidden = _embeddings(graph, weights, first_position)
    for number in range(layers):
        hidden = _layer(graph, hidden, f"encoder.layer.{number}.", weights, heads)
    graph.node("Reshape", [hidden, "states_shape"], "states")
    if pooling == "mean":
        graph.node("ReduceMean", ["states"], "vectors", axes=[1], keepdims=0)
    elif pooling == "cls":
        graph.node("Gather", ["states", graph.constant("zero", np.array(0))], "vectors", axis=1)
    else:
        graph.node("Gather", ["states", graph.constant("zero", np.array(0))], "first", axis=1)
        pooler = [graph.constant(f"pooler.{part}", weights[f"pooler.dense.{part}"]) for part in ("weight", "bias")]
        graph.node("Tanh", [graph.node("Gemm", ["first", *pooler], "pooled", transB=1)], "vectors")
    return helper.make_model(
        helper.make_graph(
            graph.nodes,
            "alphita",
            [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["rows", "length"])],
            [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["rows", dim])],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)],
        ir_version=IR_VERSION,
        producer_name="alphita",
    )


class _Graph:
    """Nodes and constants in the making; tensors go by name."""

    def __init__(self, peaks: Mapping[str, NDArray[np.float32]] | None, eps: float) -> None:
        self.quantize, self.peaks, self.eps = peaks is not None, peaks or {}, eps
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.constant("minus_one", np.array([-1]))
        if self.quantize:
            self.constant("unit", np.float32(1))
            for name, zero, step in (("even", MIDDLE, 1 / (255 - MIDDLE)), ("gelu", GELU_ZERO, 1 / (255 - GELU_ZERO))):
                self.constant(f"{name}.zero", np.uint8(zero))
                self.constant(f"{name}.zeros", np.array([zero], np.uint8))
                self.constant(f"{name}.steps", np.float32(step))
            self.constant("even.least", np.float32(1e-12))
            self.constant("gelu.least", np.float32(GELU_LEAST / GELU_ZERO))

    def constant(self, name: str, value: Any) -> str:  # noqa: ANN401 - what NumPy takes
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, *, domain: str = "", **attributes: Any) -> str:  # noqa: ANN401
        from onnx import helper

        self.nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **attributes))
        return output

    def products(
        self, x: str, weights: Mapping[str, NDArray[np.float32]], outputs: Mapping[str, str], *, gelu: bool = False
    ) -> None:
        """Add x W^T, without bias, for states x (tokens, in) and each of `outputs`: name of a linear layer ->
        output."""
        matrices = {name: weights[f"{name}.weight"] for name in outputs}
        if not self.quantize:
            for name, output in outputs.items():
                self.node("MatMul", [x, self.constant(f"{output}.weight", matrices[name].T.copy())], output)
            return
        first = next(iter(outputs))
        if first in self.peaks:
            weight_peaks = np.abs(np.concatenate(list(matrices.values()))).max(0)
            share = np.sqrt(np.maximum(self.peaks[first], 1e-5) / np.maximum(weight_peaks, 1e-5)).astype(np.float32)
            matrices = {name: matrix * share for name, matrix in matrices.items()}
            x = self.node("Mul", [x, self.constant(f"{first}.smooth", 1 / share)], f"{first}.x")
        kind = "gelu" if gelu else "even"
        self._quantized(x, kind)
        for name, output in outputs.items():
            scale = np.maximum(np.abs(matrices[name]).max(1) / 127, 1e-12).astype(np.float32)
            steps = np.rint(matrices[name] / scale[:, None]).astype(np.int8)
            matrix = self.constant(f"{output}.weight", steps.T.copy())
            columns = self.constant(f"{output}.weight_scale", scale)
            product = [f"{x}.q", matrix, "unit", columns, f"{kind}.zero"]
            self.node("MatMulIntegerToFloat", product, f"{output}.columns", domain=CONTRIB)
            self.node("Mul", [f"{output}.columns", f"{x}.rows"], output)

    def _quantized(self, x: str, kind: str) -> None:
        """Add x (tokens, d) as {x}.q uint8 with one {x}.scale (tokens,) a token."""
        size = x if kind == "gelu" else self.node("Abs", [x], f"{x}.abs")
        self.node("ReduceMax", [size], f"{x}.max", axes=[-1], keepdims=0)
        self.node("Mul", [f"{x}.max", f"{kind}.steps"], f"{x}.step")
        self.node("Max", [f"{x}.step", f"{kind}.least"], f"{x}.scale")
        self.node("Shape", [f"{x}.scale"], f"{x}.tokens")
        self.node("Expand", [f"{kind}.zeros", f"{x}.tokens"], f"{x}.zeros")
        self.node("QuantizeLinear", [x, f"{x}.scale", f"{x}.zeros"], f"{x}.q", axis=0)
        self.node("Unsqueeze", [f"{x}.scale", "minus_one"], f"{x}.rows")


def _embeddings(graph: _Graph, weights: Mapping[str, NDArray[np.float32]], first_position: int) -> str:
    words = weights["embeddings.word_embeddings.weight"]
    positions = weights["embeddings.position_embeddings.weight"][first_position:]
    graph.constant("positions", positions + weights["embeddings.token_type_embeddings.weight"][0])
    graph.node("Reshape", ["input_ids", "minus_one"], "ids")
    if graph.quantize:
        scale = np.maximum(np.abs(words).max(1) / 127, 1e-12).astype(np.float32)
        graph.constant("words", np.rint(words / scale[:, None]).astype(np.int8))
        graph.constant("words_scale", scale)
        graph.node("Gather", ["words", "ids"], "words.steps")
        graph.node("Gather", ["words_scale", "ids"], "words.scale")
        graph.node("DequantizeLinear", ["words.steps", "words.scale"], "words.flat", axis=0)
    else:
        graph.node("Gather", [graph.constant("words", words), "ids"], "words.flat")
    graph.node("Reshape", ["words.flat", "states_shape"], "words.rows")
    # positions[:length]
    zero, one = graph.constant("from", np.array([0])), graph.constant("one", np.array(1))
    graph.node("Gather", ["ids_shape", one], "length")
    graph.node("Unsqueeze", ["length", zero], "to")
    graph.node("Slice", ["positions", zero, "to", zero], "places")
    graph.node("Add", ["words.rows", "places"], "embedded")
    norm = [graph.constant(f"norm.{part}", weights[f"embeddings.LayerNorm.{part}"]) for part in ("weight", "bias")]
    graph.node("LayerNormalization", ["embedded", *norm], "embedded.norm", axis=-1, epsilon=graph.eps)
    return graph.node("Reshape", ["embedded.norm", "flat_shape"], "embedded.flat")


def _layer(graph: _Graph, x: str, prefix: str, weights: Mapping[str, NDArray[np.float32]], heads: int) -> str:
    """Add one layer to the states x (tokens, d)."""
    parts = [prefix + f"attention.self.{part}" for part in ("query", "key", "value")]
    graph.products(x, weights, {name: f"{name}.flat" for name in parts})
    for name in parts:
        graph.node("Reshape", [f"{name}.flat", "states_shape"], f"{name}.rows")
    bias = graph.constant(prefix + "bias", np.concatenate([weights[f"{name}.bias"] for name in parts]))
    graph.node(
        "MultiHeadAttention",
        [*(f"{name}.rows" for name in parts), bias],
        prefix + "context",
        domain=CONTRIB,
        num_heads=heads,
    )
    context = graph.node("Reshape", [prefix + "context", "flat_shape"], prefix + "context.flat")
    x = _after(graph, context, x, prefix + "attention.output.", weights)
    wide = prefix + "intermediate.dense"
    graph.products(x, weights, {wide: f"{wide}.flat"})
    bias = graph.constant(f"{wide}.bias", weights[f"{wide}.bias"])
    graph.node("BiasGelu", [f"{wide}.flat", bias], prefix + "gelu", domain=CONTRIB)
    return _after(graph, prefix + "gelu", x, prefix + "output.", weights, gelu=True)


def _after(
    graph: _Graph, x: str, residual: str, prefix: str, weights: Mapping[str, NDArray[np.float32]], *, gelu: bool = False
) -> str:
    """Add norm(residual + x W^T + b), without the runtime's SkipLayerNormalization, which is not vectorised."""
    graph.products(x, weights, {prefix + "dense": prefix + "flat"}, gelu=gelu)
    names = ("LayerNorm.weight", "LayerNorm.bias", "dense.bias")
    *norm, bias = (graph.constant(prefix + name, weights[prefix + name]) for name in names)
    graph.node("Add", [prefix + "flat", bias], prefix + "biased")
    graph.node("Add", [prefix + "biased", residual], prefix + "sum")
    return graph.node("LayerNormalization", [prefix + "sum", *norm], prefix + "states", axis=-1, epsilon=graph.eps)
