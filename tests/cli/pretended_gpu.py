"""Run a program as if there were a GPU: `python pretended_gpu.py fairseq-train ...`, or `fairseq_groc COMMAND ...`.

PyTorch lets Python be a device. Here the CPU computes what is on it, and ``compute`` refuses what CUDA refuses: tensors of both
devices in one operation (single numbers aside), the CPU's generators, and turning a tensor into a NumPy array. CUDA's kernels are
not tried.
"""

import importlib
import runpy
import sys
import types

import fairseq.trainer
import torch
from forked_programs import PROGRAMS
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

COPIES = {"aten::copy_", "aten::_to_copy", "aten::_copy_from"}
INDEXED = {"aten::index", "aten::index_put_", "aten::_index_put_impl_"}  # by indices of either device
NOTHING = "set_device synchronize empty_cache manual_seed manual_seed_all set_rng_state reset_peak_memory_stats"
_setup_privateuseone_for_python_backend("pretended")
DEVICE = torch.device("pretended:0")
COMPUTED: list = []  # operations on the device


class OnDevice(torch.Tensor):
    """A tensor of the device.

    Args:
        held: what it holds, a tensor of the CPU
    """

    __torch_function__ = torch._C._disabled_torch_function_impl
    is_cuda = True

    @staticmethod
    def __new__(cls, held):
        layout = {"strides": held.stride(), "storage_offset": held.storage_offset(), "dtype": held.dtype}
        layout["dispatch_sizes_strides_policy"] = "sizes"  # which operations change in place
        tensor = torch.Tensor._make_wrapper_subclass(cls, held.shape, device=DEVICE, **layout)
        tensor.held = held.detach()
        return tensor

    @classmethod
    def __torch_dispatch__(cls, operation, classes, given=(), options=None):
        return compute(operation, *given, **(options or {}))

    def __deepcopy__(self, memo):
        return memo.setdefault(id(self), like(self.detach().clone(), self))

    def __getitem__(self, index):
        return super().__getitem__(torch.tensor(index) if isinstance(index, list) else index)

    def tolist(self):
        return self.held.tolist()

    def new_tensor(self, *given, **options):
        return self.held.new_tensor(*given, **options).to(DEVICE)

    def numpy(self, *_, **__):
        raise TypeError("can't convert a tensor of the device to numpy")

    __array__ = numpy


def held(one):
    """Return what the CPU computes with, in the place of a tensor or the device."""
    return one.held if isinstance(one, OnDevice) else torch.device("cpu") if isinstance(one, torch.device) else one


def compute(operation, *given, **options):
    """Compute an operation of PyTorch that has tensors of the device, or is to make one."""
    COMPUTED.append(operation)
    name, (leaves, _) = operation._schema.name, tree_flatten((given, options))
    ours = {id(one.held): one for one in leaves if isinstance(one, OnDevice)}
    values = given[2:3] if name in INDEXED and isinstance(given[0], OnDevice) else leaves
    others = [one for one in values if isinstance(one, torch.Tensor) and not isinstance(one, OnDevice) and one.dim()]
    if name not in COPIES and ours and others:
        raise RuntimeError(f"{name}: expected tensors of one device, the CPU has one of {tuple(others[0].shape)}")
    if any(isinstance(one, torch.Generator) for one in leaves):
        raise RuntimeError(f"{name}: expected a generator of the device, got one of the CPU")
    stays = options["device"].type == DEVICE.type if options.get("device") else bool(ours)
    found = INSTEAD.get(name, operation)(*tree_map(held, given), **tree_map(held, options))

    def on_device(one):
        if not (stays and isinstance(one, torch.Tensor)):
            return one
        return ours[id(one)] if id(one) in ours else OnDevice(one)

    return tree_map(on_device, found)


def cell(x, h, state, *biases):
    """Return the new h and state of an LSTM's cell, and its gates, as ``_thnn_fused_lstm_cell``."""
    gates = torch.stack((x + h + sum(biases)).chunk(4, 1))
    gates = torch.stack([gates[0].sigmoid(), gates[1].sigmoid(), gates[2].tanh(), gates[3].sigmoid()])
    state = gates[1] * state + gates[0] * gates[2]
    return gates[3] * state.tanh(), state, gates


def cell_backward(to_h, to_state, before, state, gates, has_biases):
    """Return the gradients of what goes into the gates, of the state before, and of the biases."""
    i, f, g, o = gates
    to_h = torch.zeros_like(state) if to_h is None else to_h
    to_state = (0 if to_state is None else to_state) + to_h * o * (1 - state.tanh() ** 2)
    parts = (to_state * g * i * (1 - i), to_state * before * f * (1 - f), to_state * i * (1 - g**2))
    to_gates = torch.cat((*parts, to_h * state.tanh() * o * (1 - o)), 1)
    return to_gates, to_state * f, to_gates.sum(0) if has_biases else None


INSTEAD = {  # of what no CPU has
    "aten::_copy_from": lambda source, target, *_: target.copy_(source),
    "aten::_thnn_fused_lstm_cell": cell,
    "aten::_thnn_fused_lstm_cell_backward_impl": cell_backward,
}


def like(new, old):
    """Return a tensor as a parameter, if another one is one."""
    return torch.nn.Parameter(new, old.requires_grad) if isinstance(old, torch.nn.Parameter) else new


def move(module, *given, **options):
    """``Module.to``, whose parameters are new objects, shared by those that shared the old ones."""
    device, dtype, *_ = torch._C._nn._parse_to(*given, **options)
    device = DEVICE if device is not None and device.type == "cuda" else device
    new = {}
    for owner in module.modules():
        for tensors in (owner._parameters, owner._buffers):
            for name, old in tensors.items():
                if old is not None and id(old) not in new:
                    kind = dtype if old.is_floating_point() else None
                    new[id(old)] = like(old.detach().to(device=device, dtype=kind), old), old
                if old is not None:
                    tensors[name] = new[id(old)][0]
    return module


class Torch(types.ModuleType):
    """PyTorch, whose CUDA is the device."""

    def __getattr__(self, name):
        return getattr(torch, name)

    def device(self, *given):
        return DEVICE if given[0] == "cuda" else torch.device(*given)


def pretend() -> None:
    """Let this process have the device."""
    library = torch.library.Library("_", "IMPL")
    library.fallback(compute, "PrivateUse1")
    torch._pretended = library  # which undoes it when it goes
    tensor = torch.tensor
    devices = {None: "cpu", "cuda": DEVICE}  # no tensor is made on DEVICE, which is Python's
    torch.tensor = lambda data, *, device=None, **options: tensor(data, **options).to(devices.get(device, device))
    torch.Tensor.cuda = lambda tensor, *_, **__: tensor.to(DEVICE)
    torch.Tensor.pin_memory = lambda tensor, *_: tensor
    torch.nn.Module.to, torch.nn.Module.cuda = move, lambda module, *_: move(module, DEVICE)
    torch.nn.Module.cpu = lambda module: move(module, "cpu")
    torch.pretended.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
    about = types.SimpleNamespace(name="pretended", major=9, minor=0, total_memory=2**33)
    answers = {"is_available": True, "device_count": 1, "current_device": 0, "get_device_name": "pretended"}
    answers |= {"get_device_properties": about, "get_rng_state": torch.zeros(1, dtype=torch.uint8)}
    answers |= {"memory_allocated": 0, "max_memory_allocated": 0}
    for name, answer in {**dict.fromkeys(NOTHING.split()), **answers}.items():
        setattr(torch.cuda, name, lambda *_, answer=answer: answer)
    fairseq.trainer.torch = Torch("torch")


if __name__ == "__main__":
    pretend()
    _, program, *sys.argv[1:] = sys.argv
    try:
        if program in PROGRAMS:
            importlib.import_module(PROGRAMS[program]).cli_main()
        else:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
    finally:
        print(f"operations on the device: {len(COMPUTED)}")
