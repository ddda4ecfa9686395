# SPDX-License-Identifier: Apache-2.0
"""ONNX of PyTorch modules with more weights than one wants to copy: the graph comes from tensors without contents, the
weights go from where they lie to one file."""
from concurrent.futures import ThreadPoolExecutor

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


def place_weights(module):
    """Where parameters and buffers lie in a file that has them all, by name: (offset, bytes)."""
    places, offset = {}, 0
    for name, tensor in module.state_dict().items():
        places[name] = offset, tensor.nbytes
        offset += -(-tensor.nbytes // ALIGNMENT) * ALIGNMENT
    return places


def write_weights(module, places, path):
    with open(path, "wb") as file:
        for name, tensor in module.state_dict().items():
            file.seek(places[name][0])
            tensor.detach().contiguous().cpu().view(-1).numpy().tofile(file)


def write_graph(workload, path, location, places):
    """Writes the ONNX graph of a workload in float16, whose weights are at `places` of the file `location` beside it."""
    import onnx_ir
    from torch_workloads import half
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


def export(workload, module, path):
    """Writes the ONNX graph of a workload in float16 to `path`, and the module's weights to .weights beside it."""
    location, places = path.with_suffix(".weights"), place_weights(module)
    with ThreadPoolExecutor(1) as writer:  # the graph takes about as long
        written = writer.submit(write_weights, module, places, location)
        write_graph(workload, path, location.name, places)
        written.result()
