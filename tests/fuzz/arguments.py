"""Random arguments, chosen by a parameter's name (see `choices.py`), then by its annotation."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random
from typing import Any

from .calls import MODES, Call, Dtype
from .choices import (
    DISTRIBUTION_FILLS,
    FLOAT_CHOICES,
    INDEX_TARGETS,
    INTS,
    NUMBERS,
    SIGN_TARGETS,
    SKIPPED,
    SPD_TARGETS,
    UNIT_TARGETS,
    WORDS,
)
from .known import RANDOM
from .shapes import AXES, Shapes
from .targets import QUESTIONS, Parameter, Target
from .tensors import COMPLEX, DTYPES, FILLS, FLOATS, INTEGERS, LAYOUTS, TensorSpec


class Drawer:
    """Draws one random call of a target."""

    def __init__(self, rng: Random, target: Target) -> None:
        self.rng, self.target = rng, target
        self.shapes = Shapes(rng, target.path, target.leaf)
        self.dtype = self.any_dtype()
        self.fills = tuple(fill for fill in FILLS if fill != "huge" or not self.shapes.contracts)
        self.fill = rng.choice(self.fills) if rng.random() < 0.5 else "normal"
        self.mode = rng.choice(MODES) if rng.random() < 0.45 else rng.choice(MODES[:2])
        if self.mode == "compile" and rng.random() < 0.7:
            self.mode = "backward"  # compiling takes long
        self.rank = 0  # of the first tensor, when it is drawn
        self.first: tuple[int, ...] = ()

    def any_dtype(self) -> str:
        pool = (*FLOATS, *FLOATS, "float32", "float32", "float64", *DTYPES)
        return self.rng.choice(pool)

    def draw(self) -> Call:
        """Return a call with random arguments."""
        target, rng = self.target, self.rng
        if target.is_distribution:
            return self.draw_distribution()
        if target.is_optimizer:
            return self.draw_optimizer()
        parameters = list(target.parameters)
        args: list[Any] = []
        settings: dict[str, Any] = {}
        inputs: tuple[Any, ...] = ()
        if target.is_module:
            inputs = self.module_inputs()
        elif target.path.startswith("Tensor."):
            args.append(self.tensor(parameters[0] if parameters else SELF))
            parameters = parameters[1:]
        for parameter in parameters:
            if parameter.name in SKIPPED and not parameter.required:
                continue
            if not parameter.required and rng.random() > (0.5 if parameter.is_tensor else 0.3):
                continue
            value = self.argument(parameter)
            if value is MISSING:
                continue
            positional = parameter.required and not parameter.keyword_only and not settings
            if positional and parameter.variadic:
                args += value if isinstance(value, (list, tuple)) else (value,)
            elif positional:
                args.append(value)
            else:
                settings[parameter.name] = value
        mode = self.mode if self.mode != "out" or target.has_out else "backward"
        if RANDOM.fullmatch(target.path):
            mode = "forward"
        return self.finish(
            Call(target.path, tuple(args), settings, inputs, mode, rng.random() < 0.7)
        )

    def finish(self, call: Call) -> Call:
        """Let tensors want gradients where the mode takes some."""
        if call.mode in ("forward", "out"):
            return call
        chance = self.rng.random()

        def with_grad(value: Any) -> Any:
            if not isinstance(value, TensorSpec) or not value.is_float:
                return value
            return replace(value, grad=chance < 0.7 or self.rng.random() < 0.6)

        return call.change(with_grad)

    # Tensors ---------------------------------------------------------------------------

    def spec(self, shape: tuple[int, ...], dtype: str, fill: str, bound: int = 1) -> TensorSpec:
        rng = self.rng
        layout = rng.choice(LAYOUTS) if rng.random() < 0.3 else "contiguous"
        return TensorSpec(shape, dtype, fill, rng.randrange(10**6), layout, bound=bound)

    def tensor(self, parameter: Parameter) -> TensorSpec:
        """Return a tensor for a parameter: its shape by contract, its values by its name."""
        shape = self.shapes.draw()
        if not self.first and self.shapes.next == 1:
            self.first, self.rank = shape, len(shape)
        dtype, fill, bound = self.values_for(parameter, shape)
        return self.spec(shape, dtype, fill, bound)

    def values_for(self, parameter: Parameter, shape: tuple[int, ...]) -> tuple[str, str, int]:
        """Return dtype, fill and bound of a parameter's tensor."""
        rng, name, path = self.rng, parameter.name, self.target.path
        bound = self.index_bound(path, name)
        if self.is_index(parameter, path):
            return rng.choice(("int64", "int64", "int64", "int32")), "index", bound
        if name in ("mask", "condition") or (name == "attn_mask" and rng.random() < 0.5):
            return "bool", "mask", 1
        dtype = self.dtype if rng.random() < 0.88 else self.any_dtype()
        if name in ("target", "input2") and SIGN_TARGETS.fullmatch(path):
            return dtype, rng.choice(("ones", "ties")), 1
        if name == "target" and UNIT_TARGETS.fullmatch(path):
            return dtype, rng.choice(("unit", "ones", "zeros")), 1
        if UNIT_TARGETS.fullmatch(path) and rng.random() < 0.6:
            return dtype, "unit", 1
        if name in ("var", "running_var") and rng.random() < 0.8:
            return dtype, "positive", 1
        if SPD_TARGETS.fullmatch(path) and rng.random() < 0.75:
            return dtype, "spd", 1
        if name in ("sorted_sequence", "boundaries") and rng.random() < 0.8:
            return dtype, "ordered", 1
        if name == "q":
            return dtype, "unit", 1
        return dtype, self.fill if rng.random() < 0.75 else rng.choice(self.fills), 1

    def is_index(self, parameter: Parameter, path: str) -> bool:
        """Whether a parameter wants indices."""
        name, rng = parameter.name, self.rng
        if rng.random() < 0.01:
            return False
        if name in ("index", "indices", "offsets", "input_lengths", "target_lengths", "pivots",
                    "LU_pivots", "repeats", "hx_index"):  # fmt: skip
            return True
        if name in ("target", "targets") and INDEX_TARGETS.fullmatch(path):
            return not (path.endswith(("cross_entropy", "CrossEntropyLoss")) and rng.random() < 0.2)
        if re.fullmatch(r".*(embedding|embedding_bag|Embedding|EmbeddingBag)", path):
            return name == "input"
        return bool(re.fullmatch(r".*(bincount|one_hot|unravel_index)", path)) and name in (
            "input", "tensor"
        )  # fmt: skip

    def index_bound(self, path: str, name: str) -> int:
        """Return what indices stay below: the size of an axis, rarely one too many."""
        sizes = self.shapes.sizes
        extra = self.rng.random() < 0.03
        if INDEX_TARGETS.fullmatch(path):
            return sizes.get("c", 2) + extra
        if name.endswith("_lengths"):
            return min(sizes.get("t", 1), sizes.get("s", 1)) + 1
        if "mbedding" in path:
            return self.shapes.axis("v") + extra
        axes = [sizes[letter] for letter in "nm" if letter in sizes] or [2]
        return min(axes) + extra

    def module_inputs(self) -> tuple[Any, ...]:
        """Return what an instance of a module is called with."""
        count = max(1, len(self.shapes.contracts))
        names = ["input", "target", "weight", "other"]
        if self.target.leaf == "CTCLoss":
            names[2:] = "input_lengths", "target_lengths"
        if self.target.leaf.startswith("MaxUnpool"):
            names[1] = "indices"
        inputs = []
        for name in names[:count]:
            inputs.append(self.tensor(Parameter(name, "Tensor", True, False)))
        return tuple(inputs)

    # Others ------------------------------------------------------------------------------

    def argument(self, parameter: Parameter) -> Any:
        """Return a random value for a parameter, or MISSING."""
        rng, name, note = self.rng, parameter.name, parameter.annotation
        if name == "hx" and parameter.is_tensor_list:
            return [self.tensor(parameter) for _ in range(2)]
        if name == "indices" and "index_put" in self.target.leaf:
            return (self.tensor(parameter),)
        if parameter.is_tensor_list or name in ("tensors", "operands", "matrices"):
            return [self.tensor(parameter) for _ in range(rng.choice((1, 2, 2, 3)))]
        if name.endswith("_lengths"):
            return self.tensor(parameter)
        if parameter.is_tensor:
            takes_number = "Array" in note and self.shapes.next and not self.shapes.contracts
            if takes_number and name not in ("index", "mask") and rng.random() < 0.2:
                return rng.choice(NUMBERS)
            return self.tensor(parameter)
        if name in AXES and self.target.is_module:
            return self.shapes.axis(AXES[name]) if AXES[name] != "2" else 2
        for draw in (self.dimension, self.of_shape, self.window):
            value = draw(parameter)
            if value is not MISSING:
                return value
        if name in ("dtype",):
            return Dtype(self.any_dtype()) if rng.random() < 0.8 else MISSING
        if name in WORDS and ("str" in note or "Any" in note):
            return rng.choice(WORDS[name])
        return self.number(parameter)

    def number(self, parameter: Parameter) -> Any:
        """Return a number or a bool by annotation, or a tensor where anything may be."""
        rng, name, note = self.rng, parameter.name, parameter.annotation
        if note.startswith("bool"):
            return rng.random() < 0.5
        if "tuple[float, float]" in note and parameter.default is not None:
            return parameter.default
        if "float" in note or name in FLOAT_CHOICES:
            choice = FLOAT_CHOICES.get(name, (0.5, 1.0, 2.0, 0.0, 0.1, -1.5))
            return rng.choice(choice) if rng.random() < 0.93 else rng.choice(NUMBERS)
        if "int" in note or name in INTS:
            return rng.choice(INTS.get(name, (1, 2, 0, 3, -1)))
        if name in ("other", "min", "max", "value", "values", "elements", "test_elements", "input",
                    "exponent", "self", "a", "b", "src", "tensor1", "tensor2"):  # fmt: skip
            if self.shapes.next and rng.random() < 0.4:
                return rng.choice(NUMBERS)
            return self.tensor(parameter)
        if name == "fill_value":
            return rng.choice(NUMBERS)
        return MISSING

    def dimension(self, parameter: Parameter) -> Any:
        """Return one or several dimensions."""
        rng, name, note = self.rng, parameter.name, parameter.annotation
        rank = max(self.rank, 1)

        def one() -> int:
            return (
                rng.randint(-rank, rank - 1)
                if rng.random() < 0.97
                else rng.choice((rank, -rank - 1))
            )

        if name in DIMENSIONS and "Sequence" not in note:
            several = any(word in note for word in ("Dims", "Any", "Sizes", "tuple"))
            if not several or rng.random() < 0.6:
                return one()
            return tuple(one() for _ in range(rng.choice((0, 1, 2, 2, 3))))
        if name in ("dims", "source", "destination", "dim"):
            if self.target.leaf == "permute" and rng.random() < 0.9:
                return tuple(rng.sample(range(self.rank), self.rank))
            if self.target.leaf == "tensordot":
                return rng.choice((1, 2, 0))
            if self.target.leaf == "tile":
                return tuple(rng.choice((1, 2, 3)) for _ in range(rank))
            return rng.choice((one(), (one(),), (one(), one()), (one(), one())))
        return MISSING

    def of_shape(self, parameter: Parameter) -> Any:
        """Return sizes, strides and the like, which go with the shape of the first tensor."""
        rng, name, first = self.rng, parameter.name, self.first
        if name in ("shape", "size", "sizes") and (
            "Sequence" in parameter.annotation or name == "shape"
        ):
            if self.target.leaf in ("affine_grid", "affine_grid_generator"):
                return (self.shapes.axis("n"), 2, 3, 4)
            if self.target.leaf in (
                "interpolate",
                "upsample",
                "upsample_nearest",
                "upsample_bilinear",
            ):
                return rng.choice((3, (2, 3), (5, 4), 1))
            if "as_strided" in self.target.leaf:
                return (2, 2)
            shape = list(first)
            rng.shuffle(shape)
            if shape and rng.random() < 0.4:
                shape[rng.randrange(len(shape))] = -1
            elif rng.random() < 0.4:
                shape = [rng.choice((2, 3)), *first]
            return tuple(shape)
        if name == "normalized_shape":
            return first[-rng.choice((1, 2)) :]
        if name == "repeats":
            return rng.choice(
                (2, 1, 3, tuple(rng.choice((1, 2, 0)) for _ in range(len(first) + 1)))
            )
        if name in ("split_sizes", "split_size_or_sections", "indices_or_sections", "split_size"):
            return rng.choice((1, 2, 3, (1, 1), (1, 2)))
        if name == "shifts":
            return rng.choice((1, -1, 3, (1, 2)))
        if name == "pad":
            return tuple(rng.choice((0, 1, 2, 0, -1)) for _ in range(2 * rng.choice((1, 2, 2, 3))))
        if name in ("stride", "storage_offset") and "as_strided" in self.target.leaf:
            return (2, 1) if name == "stride" else 0
        if name == "unflattened_size":
            return rng.choice(((2, 2), (4, 1), (-1, 2)))
        return (3, 3) if name == "s" else MISSING

    def new_shape(self) -> Any:
        """Return a shape to give to a tensor like the first."""
        rng, leaf = self.rng, self.target.leaf
        if leaf in ("affine_grid", "affine_grid_generator"):
            return (self.shapes.axis("n"), 2, 3, 4)
        if leaf.startswith(("interpolate", "upsample")):
            return rng.choice((3, (2, 3), (5, 4), 1))
        if "as_strided" in leaf:
            return (2, 2)
        if not self.shapes.next:
            return tuple(rng.choice((2, 1, 3, 0)) for _ in range(rng.choice((1, 1, 2, 3))))
        shape = list(self.first)
        rng.shuffle(shape)
        if shape and rng.random() < 0.4:
            shape[rng.randrange(len(shape))] = -1
        elif rng.random() < 0.4:
            shape = [rng.choice((2, 3)), *self.first]
        return tuple(shape)

    def window(self, parameter: Parameter) -> Any:
        """Return kernel sizes, strides, paddings: a number, or one per axis."""
        rng, name = self.rng, parameter.name
        choice = {
            "kernel_size": (1, 2, 2, 3), "stride": (1, 2, 3), "padding": (0, 1, 1, 2),
            "dilation": (1, 1, 2), "output_padding": (0, 1), "output_size": (1, 2, 3, 5),
            "size": (3, 5, 2),
        }.get(name)  # fmt: skip
        if choice is None or "bool" in parameter.annotation:
            return MISSING
        digits = re.search(r"(\d)d", self.target.path)
        rank = int(digits[1]) if digits else 2
        if "Pad" in self.target.path:
            rank = 2 * rank
        if self.target.leaf in ("fold", "Fold") and name == "output_size":
            return (rng.choice((3, 4)), 4)
        if name == "padding" and "onv" in self.target.path and rng.random() < 0.1:
            return rng.choice(("same", "valid"))
        return (
            rng.choice(choice)
            if rng.random() < 0.7
            else tuple(rng.choice(choice) for _ in range(rank))
        )

    # Classes -----------------------------------------------------------------------------

    def draw_distribution(self) -> Call:
        """Return a question to a distribution; of probs and logits one is given."""
        rng = self.rng
        self.dtype = rng.choice(FLOATS)
        names = {parameter.name for parameter in self.target.parameters}
        skipped = {rng.choice(("probs", "logits"))} if {"probs", "logits"} <= names else set()
        matrices = ("covariance_matrix", "scale_tril", "precision_matrix")
        skipped |= set(rng.sample(matrices, 2))
        settings: dict[str, Any] = {}
        base = tuple(size or 1 for size in self.shapes.base[-3:]) or (2,)
        for parameter in self.target.parameters:
            name = parameter.name
            if name in skipped or name not in (*DISTRIBUTION_FILLS, "total_count"):
                continue
            if name == "total_count":
                settings[name] = rng.choice((1, 3, 10))
                continue
            shape = (*base, base[-1]) if name in matrices else base
            if name == "temperature":
                shape = ()
            fill = DISTRIBUTION_FILLS[name] if rng.random() < 0.9 else rng.choice(FILLS)
            settings[name] = self.spec(shape, self.dtype, fill)
        question = rng.choice(("log_prob", "log_prob", "log_prob", *QUESTIONS))
        inputs: tuple[Any, ...] = ()
        if question in ("log_prob", "cdf", "icdf"):
            fill = rng.choice(("unit", "normal", "positive", "ones", "zeros", "ties", "edges"))
            inputs = (self.spec(base, self.dtype, fill),)
        mode = rng.choice(("forward", "backward", "second"))
        return self.finish(Call(f"{self.target.path}.{question}", (), settings, inputs, mode))

    def draw_optimizer(self) -> Call:
        """Return some steps of an optimizer."""
        rng = self.rng
        shape = self.shapes.base if self.target.leaf != "Muon" else (3, 4)
        dtype = rng.choice(FLOATS)
        settings: dict[str, Any] = {}
        for parameter in self.target.parameters[1:]:
            if parameter.name in SKIPPED or rng.random() < 0.6:
                continue
            value = self.number(parameter)
            if value is not MISSING:
                settings[parameter.name] = value
        if self.target.leaf == "SGD":
            settings.setdefault("lr", 0.1)
        fills = [
            rng.choice(("normal", "normal", "zeros", "tiny", "huge", "edges")) for _ in range(3)
        ]
        gradients = tuple(self.spec(shape, dtype, fill) for fill in fills)
        return Call(self.target.path, (self.spec(shape, dtype, "normal"),), settings, gradients)


MISSING = object()
DIMENSIONS = set("dim dim0 dim1 dim2 axis axis0 axis1 dimension start_dim end_dim".split())
SELF = Parameter("input", "Tensor", True, False)


def mutate(call: Call, rng: Random) -> Call:
    """Return a call that both libraries took with other values, dtypes, layouts or another mode."""
    dtype = rng.choice((*FLOATS, *FLOATS, *COMPLEX, *INTEGERS, "bool"))
    has_huge = any(spec.fill == "huge" for spec in call.specs())
    fill = rng.choice(FILLS if has_huge else [fill for fill in FILLS if fill != "huge"])
    chance = rng.random()
    floats = {spec.dtype for spec in call.specs() if spec.is_float}

    def other(value: Any) -> Any:
        if not isinstance(value, TensorSpec):
            return value
        changed = value
        if chance < 0.4 and (value.dtype in floats or not floats):
            changed = replace(changed, dtype=dtype)
        if value.fill not in ("index", "mask", "spd") and (rng.random() < 0.5):
            changed = replace(changed, fill=fill)
        if rng.random() < 0.4:
            changed = replace(changed, layout=rng.choice(LAYOUTS))
        grad = value.grad and changed.is_float
        return replace(changed, grad=grad, seed=rng.randrange(10**6))

    mutated = call.change(other)
    if call.mode in ("backward", "second", "strict") and rng.random() < 0.4:
        mutated = replace(
            mutated, mode=rng.choice(("backward", "second", "jvp", "autocast", "strict"))
        )
    return mutated
