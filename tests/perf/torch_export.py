"""ONNX of PyTorch modules with more weights than one wants to copy: the graph comes from tensors without contents, the
weights go from where they lie to one file."""
from pathlib import Path

import torch
from torch import nn

ALIGNMENT = 4096


class Borrowing(nn.Module):
    """The module with its parameters and buffers as further inputs: nothing can fold them into the graph."""

    def __init__(self, module, inputs):
        super().__init__()
        self.module, self.inputs, self.names = module, inputs, list(module.state_dict())

    def forward(self, *values):
        held = dict(zip(self.names, values[self.inputs:]))
        return torch.func.functional_call(self.module, held, values[:self.inputs])


def write_weights(module, path):
    """Writes parameters and buffers to one file; returns its name and, by theirs, where they lie: (offset, bytes)."""
    places, offset = {}, 0
    with open(path, "wb") as file:
        for name, tensor in module.state_dict().items():
            data = tensor.detach().contiguous().cpu().view(-1).numpy()
            file.seek(offset)
            data.tofile(file)
            places[name] = offset, data.nbytes
            offset += -(-data.nbytes // ALIGNMENT) * ALIGNMENT
    return Path(path).name, places


def write_graph(workload, path, weights):
    """Writes the ONNX graph of a workload in float16 whose weights write_weights() wrote to the same folder."""
    import onnx_ir
    from torch_workloads import half
    location, places = weights
    with torch.device("meta"):
        module, inputs = workload.make().eval().half(), half(workload.inputs())
    names = [*inputs, *module.state_dict()]
    program = torch.onnx.export(Borrowing(module, len(inputs)), (*inputs.values(), *module.state_dict().values()),
                                dynamo=True, opset_version=20, verbose=False, input_names=names,
                                output_names=list(workload.outputs))
    graph = program.model.graph
    for value in [value for value in graph.inputs if value.name in places]:
        offset, size = places[value.name]
        graph.inputs.remove(value)
        value.const_value = onnx_ir.ExternalTensor(location, offset, size, value.dtype, shape=value.shape,
                                                   name=value.name, base_dir=str(path.parent))
        graph.register_initializer(value)
    onnx_ir.save(program.model, str(path))
