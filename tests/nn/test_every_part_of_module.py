"""Each public name of torch.nn.Module, global hooks, and the modules that define each name."""

from __future__ import annotations

import importlib

import pytest

import edutorch
from edutorch import nn

EXCLUDED = {
    "ipu": "a device that this library does not have", "xpu": "a device that it does not have",
    "mtia": "a device that it does not have",
}  # fmt: skip


def test_every_public_name_is_there(torch):
    public = {name for name in dir(torch.nn.Module) if name[0] != "_"}
    assert public - set(dir(nn.Module)) == set(EXCLUDED)
    own = {"__setstate__", "__dir__", "__delattr__", "_version", "_get_name", "_apply",
           "_save_to_state_dict", "_load_from_state_dict", "_register_state_dict_hook",
           "_register_load_state_dict_pre_hook", "_named_members"}  # fmt: skip
    assert own <= set(dir(nn.Module)) and own <= set(dir(torch.nn.Module))


def modules(library):
    return importlib.import_module(f"{library.__name__}.nn.modules.module")


def model_of(library):
    nn = library.nn
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Tanh())
    model.load_state_dict({"0.weight": library.tensor([[0.5, 1.0], [-1.0, 2.0]])})
    return model


def rounded(values):
    return [None if value is None else [round(x, 4) for x in value.flatten().tolist()]
            for value in values]  # fmt: skip


def test_hooks_for_all_modules(torch):
    def run(library):
        said, model, home = [], model_of(library), modules(library)
        model[1].register_forward_hook(lambda m, args, y: said.append("own"))
        model[1].register_forward_pre_hook(lambda m, args: said.append("own pre"))

        def note(label):
            return lambda m, *values: said.append((label, type(m).__name__, len(values)))

        def gradients(label):
            return lambda m, *values: said.append((label, [rounded(g) for g in values]))

        handles = [
            home.register_module_forward_pre_hook(note("pre")),
            home.register_module_forward_hook(note("post")),
            home.register_module_forward_hook(note("with"), with_kwargs=True),
            home.register_module_full_backward_pre_hook(gradients("backward pre")),
            home.register_module_full_backward_hook(gradients("backward")),
        ]
        x = library.tensor([[1.0, 2.0]], requires_grad=True)
        model(x).sum().backward()
        for handle in handles:
            handle.remove()
        count = len(said)
        model[0](x)
        assert len(said) == count
        return said, rounded([x.grad])

    assert run(edutorch) == run(torch)


def test_a_hook_for_all_that_is_always_called():
    said, home = [], modules(edutorch)
    hook = home.register_module_forward_hook(lambda m, a, y: said.append(y), always_call=True)
    with hook, pytest.raises(RuntimeError):
        nn.Linear(2, 2)(edutorch.ones(3))
    assert said == [None]


def test_hooks_on_registering(torch):
    def run(library):
        said, home = [], modules(library)

        def note(label):
            return lambda m, name, member: said.append((label, type(m).__name__, name))

        with (
            home.register_module_parameter_registration_hook(note("parameter")),
            home.register_module_buffer_registration_hook(note("buffer")),
            home.register_module_module_registration_hook(note("module")),
        ):
            model = library.nn.Sequential(library.nn.Linear(1, 1), library.nn.BatchNorm1d(1))
            model[1].running_mean = library.ones(1)
            model.head = library.nn.Tanh()
            model.register_module("tail", library.nn.Identity())
        twice = library.nn.Parameter(library.ones(1, 1))
        with home.register_module_parameter_registration_hook(lambda m, name, p: twice):
            replaced = library.nn.Linear(1, 1, bias=False).weight is twice
        return said, replaced

    assert run(edutorch) == run(torch)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_backward_hooks_in_old_style(torch):
    def run(library):
        said, model = [], library.nn.Sequential(library.nn.Tanh(), library.nn.Sigmoid())
        model[1].register_backward_hook(
            lambda m, into, out: said.append((rounded(into), rounded(out)))
        )
        with pytest.raises(RuntimeError, match="both regular backward hooks and full"):
            model[1].register_full_backward_hook(lambda *_: None)
        x = library.tensor([1.0, 2.0], requires_grad=True)
        model(x).sum().backward()
        full = library.nn.Tanh()
        full.register_full_backward_hook(lambda *_: None)
        with pytest.raises(RuntimeError, match="both regular backward hooks and full"):
            full.register_backward_hook(lambda *_: None)
        return said

    assert run(edutorch) == run(torch)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_backward_hooks_in_old_style_for_all():
    """PyTorch's hooks have one type for the whole process, so it is not compared here."""
    said, home = [], modules(edutorch)
    x = edutorch.tensor([1.0, 2.0], requires_grad=True)
    with home.register_module_backward_hook(lambda m, into, out: said.append((m, rounded(out)))):
        with pytest.raises(RuntimeError, match="both regular backward hooks and full"):
            home.register_module_full_backward_hook(lambda *_: None)
        layer = nn.Tanh()
        layer(x).sum().backward()
    assert said == [(layer, [[1.0, 1.0]])]
    handle = home.register_module_full_backward_hook(lambda *_: None)
    with handle, pytest.raises(RuntimeError, match="both regular backward hooks and full"):
        home.register_module_backward_hook(lambda *_: None)


def test_old_backward_hooks_warn(torch):
    for library in (edutorch, torch):
        model = library.nn.Sequential(library.nn.Tanh(), library.nn.Tanh())
        model.register_backward_hook(lambda *_: None)
        with pytest.warns(FutureWarning, match="when the forward contains multiple autograd No"):
            model(library.ones(1, requires_grad=True))


def test_set_submodule(torch):
    def run(library):
        nn = library.nn
        model = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.Tanh()))
        model.set_submodule("1.0", nn.ReLU())
        model.set_submodule("1.new", nn.Sigmoid())
        said = [repr(model)]
        for target, module, settings in (
            ("", nn.ReLU(), {}), ("1.gone", nn.ReLU(), {"strict": True}),
            ("0.weight", nn.ReLU(), {}), ("2.x", nn.ReLU(), {}), ("0.bias.x", nn.ReLU(), {}),
        ):  # fmt: skip
            with pytest.raises((ValueError, AttributeError)) as error:
                model.set_submodule(target, module, **settings)
            said.append((type(error.value), str(error.value)))
        with pytest.raises(ValueError, match=r"`module` is not an nn\.Module, found"):
            model.set_submodule("0", 3)
        return said

    assert run(edutorch) == run(torch)


PATHS = ["get_submodule:a.b", "get_submodule:weight", "get_parameter:q", "get_parameter:forward",
         "get_parameter:extra_repr.x", "get_buffer:weight", "get_buffer:q"]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_paths_that_lead_nowhere(path, torch):
    find, target = path.split(":")
    said = []
    for library in (edutorch, torch):
        with pytest.raises(AttributeError) as error:
            getattr(library.nn.Linear(1, 1), find)(target)
        said.append(str(error.value))
    assert said[0] == said[1]


def test_conversions(torch):
    def run(library):
        nn, made = library.nn, []
        norm = nn.BatchNorm1d(2)
        for change in (
            lambda: norm.type(library.float64), lambda: norm.half(), lambda: norm.to_empty(
                device="cpu"), lambda: norm.share_memory(), lambda: norm.float(),
        ):  # fmt: skip
            assert change() is norm
            made.append([str(tensor.dtype) for tensor in norm.state_dict().values()])
        conv = nn.Conv2d(2, 2, 3).to(memory_format=library.channels_last)
        return made, conv.weight.stride(), conv.bias.stride()

    assert run(edutorch) == run(torch)
    assert nn.Linear(1, 1).to(tensor=edutorch.ones(1).double()).weight.dtype is edutorch.float64


def test_subclasses_are_asked(torch):
    """A child may override train, _apply and state_dict."""

    def run(library):
        said = []

        class Frozen(library.nn.Linear):
            def train(self, mode=True):
                said.append("train")
                return super().train(False)

            def _apply(self, fn, recurse=True):
                said.append("apply")
                return super()._apply(fn, recurse)

        model = library.nn.Sequential(Frozen(1, 1), library.nn.Dropout())
        model.train().double()
        return said, [module.training for module in model.modules()], str(model[0].weight.dtype)

    assert run(edutorch) == run(torch)
    with pytest.raises(ValueError, match="training mode is expected to be boolean"):
        nn.Linear(1, 1).train("yes")


def test_arguments_of_init(torch):
    def run(library):
        class Base:
            def __init__(self, size=0):
                self.size = size

        class Both(library.nn.Module, Base):
            call_super_init = True

        said = [Both(size=3).size]
        for args, named in (((3,), {}), ((), {"a": 3})):
            with pytest.raises(TypeError) as error:
                library.nn.Module(*args, **named)
            said.append(str(error.value))
        return said

    assert run(edutorch) == run(torch)


def test_compile_changes_no_result():
    layer, x = nn.Linear(2, 1), edutorch.ones(2)
    before = layer(x)
    assert layer.compile() is None
    assert [layer(x).item() for _ in range(2)] == [before.item()] * 2


IMPORTS = """
torch.nn.modules.utils: _single _pair _triple _quadruple _ntuple _reverse_repeat_tuple
torch.nn.modules.utils: _list_with_default consume_prefix_in_state_dict_if_present
torch.nn.modules.batchnorm: _BatchNorm _NormBase BatchNorm2d SyncBatchNorm LazyBatchNorm1d
torch.nn.modules.instancenorm: _InstanceNorm InstanceNorm2d
torch.nn.modules.normalization: LayerNorm GroupNorm RMSNorm LocalResponseNorm CrossMapLRN2d
torch.nn.modules.conv: _ConvNd _ConvTransposeNd Conv2d ConvTranspose2d LazyConv2d
torch.nn.modules.loss: _Loss _WeightedLoss CTCLoss CrossEntropyLoss TripletMarginLoss
torch.nn.modules.activation: ReLU GELU MultiheadAttention GLU PReLU Softmax2d
torch.nn.modules.container: Sequential ModuleList ModuleDict ParameterList Container
torch.nn.modules.pooling: _MaxPoolNd _AdaptiveAvgPoolNd MaxPool2d MaxUnpool2d LPPool1d
torch.nn.modules.dropout: _DropoutNd Dropout2d
torch.nn.modules.rnn: RNNBase LSTM GRUCell
torch.nn.modules.sparse: Embedding EmbeddingBag
torch.nn.modules.linear: Linear Identity Bilinear LazyLinear NonDynamicallyQuantizableLinear
torch.nn.modules.padding: _ConstantPadNd ZeroPad2d ReflectionPad1d
torch.nn.modules.pixelshuffle: PixelShuffle
torch.nn.modules.channelshuffle: ChannelShuffle
torch.nn.modules.upsampling: Upsample
torch.nn.modules.adaptive: AdaptiveLogSoftmaxWithLoss
torch.nn.modules.transformer: TransformerEncoderLayer Transformer
torch.nn.modules.lazy: LazyModuleMixin
torch.nn.modules.flatten: Flatten Unflatten
torch.nn.modules.fold: Fold Unfold
torch.nn.modules.distance: CosineSimilarity
torch.nn.modules.module: Module _IncompatibleKeys register_module_forward_hook
torch.nn.modules: Module Linear
torch.nn.parameter: Parameter Buffer UninitializedParameter UninitializedBuffer is_lazy
torch.nn.parameter: UninitializedTensorMixin
torch.nn.common_types: _size_2_t _size_any_t _ratio_2_t
torch.nn.parallel: DataParallel DistributedDataParallel
torch.nn.utils.rnn: pack_padded_sequence pad_sequence
torch.nn.utils.clip_grad: clip_grad_norm_
torch.optim.lr_scheduler: _LRScheduler LRScheduler LambdaLR
torch.optim.optimizer: Optimizer
torch.optim.adam: Adam
torch.optim.sgd: SGD
torch.optim.adamw: AdamW
torch.optim.swa_utils: AveragedModel update_bn
"""


@pytest.mark.parametrize("line", IMPORTS.split("\n")[1:-1])
def test_imports_of_pytorch_code(line, torch):
    path, names = line.split(": ")
    theirs = importlib.import_module(path)
    ours = importlib.import_module("edutorch" + path.removeprefix("torch"))
    for name in names.split():
        assert hasattr(theirs, name), "PyTorch has no such name"
        assert hasattr(ours, name), name


def test_those_who_stand_behind_are_the_same(torch):
    """isinstance(m, _BatchNorm) has the same meaning as in PyTorch."""
    bases = {"batchnorm": "_BatchNorm _NormBase", "conv": "_ConvNd _ConvTransposeNd",
             "loss": "_Loss _WeightedLoss", "dropout": "_DropoutNd",
             "instancenorm": "_InstanceNorm",
             "padding": "_ConstantPadNd", "pooling": "_MaxPoolNd _LPPoolNd _MaxUnpoolNd "
             "_AdaptiveAvgPoolNd _AdaptiveMaxPoolNd"}  # fmt: skip
    for file, names in bases.items():
        for name in names.split():
            results = []
            for library in (edutorch, torch):
                home = importlib.import_module(f"{library.__name__}.nn.modules.{file}")
                base = getattr(home, name)
                results.append({
                    name_ for name_, value in vars(library.nn).items()
                    if isinstance(value, type) and issubclass(value, base)
                })  # fmt: skip
            assert results[0] == results[1], name


def test_what_the_settings_helpers_compute(torch):
    ours = importlib.import_module("edutorch.nn.modules.utils")
    theirs = importlib.import_module("torch.nn.modules.utils")
    for name in ("_single", "_pair", "_triple", "_quadruple"):
        for value in (3, (1, 2), [4, 5, 6]):
            assert getattr(ours, name)(value) == getattr(theirs, name)(value)
    for helper in (ours, theirs):
        assert helper._list_with_default(3, [1, 2]) == 3
        with pytest.raises(ValueError, match="Input dimension should be at least 3"):
            helper._list_with_default([1, None], [1, 2])
    for make in (ours, theirs):
        state = torch.nn.Sequential(torch.nn.Linear(1, 1)).state_dict(prefix="module.")
        make.consume_prefix_in_state_dict_if_present(state, "module.")
        assert list(state) == ["0.weight", "0.bias"]
        assert set(state._metadata) == {"", "0"} or set(state._metadata) == {"module", "0"}


def test_training_in_processes_needs_a_group():
    with pytest.raises(ValueError, match="call init_process_group first"):
        nn.parallel.DistributedDataParallel(nn.Linear(1, 1))


def test_a_dict_of_parameters_is_a_dict(torch):
    def run(library):
        made = library.nn.ParameterDict({"b": library.ones(1), "a": library.ones(2)})
        made.update([("c", library.ones(3))])
        made.setdefault("d", library.ones(4))
        copied = made.copy()
        said = [
            list(made),
            made.get("x"),
            tuple(made.get("a").shape),
            list(made | {"e": made["a"]}),
        ]
        said += [tuple(made.pop("a").shape), made.popitem()[0], list(made), list(copied)]
        said.append(sorted(made.fromkeys(["p", "q"], library.ones(1))))
        made.clear()
        return [*said, len(made)]

    assert run(edutorch) == run(torch)


@pytest.mark.parametrize("name", ["LayerNorm", "RMSNorm", "GroupNorm", "PReLU"])
def test_parameters_begin_again(name):
    args = (2, 4) if name == "GroupNorm" else (4,)
    layer, fresh = getattr(nn, name)(*args), getattr(nn, name)(*args)
    with edutorch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(9)
    layer.reset_parameters()
    for result, expected in zip(layer.parameters(), fresh.parameters(), strict=True):
        assert result.tolist() == expected.tolist()
