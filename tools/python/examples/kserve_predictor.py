#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A predictor of KServe: answers with a plan's tensors, by the Open Inference Protocol over HTTP and gRPC.

  pip install dist/pysinter-*.whl kserve
  kserve_predictor.py --plan mlp.plan --model_name mlp
  curl http://127.0.0.1:8080/v2/models/mlp/infer -H 'Content-Type: application/json' \\
    -d '{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 8], "data": [1, 2, 3, 4, 5, 6, 7, 8]}]}'

In a cluster this is the container of an InferenceService:

  apiVersion: serving.kserve.io/v1beta1
  kind: InferenceService
  metadata: {name: mlp}
  spec:
    predictor:
      containers:
        - name: kserve-container
          image: REGISTRY/sinter-predictor       # Python, pysinter, kserve, this file and the plan
          command: [python, kserve_predictor.py, --plan, /models/mlp.plan, --model_name, mlp]

KServe's own options (--http_port, --grpc_port, --workers ..) are taken, too.
"""
import argparse

import kserve
import numpy as np
from kserve import InferOutput, InferRequest, InferResponse
from kserve.errors import InvalidInput
from kserve.utils.numpy_codec import from_np_dtype
from kserve.utils.utils import generate_uuid

import pysinter


def describe(bindings):
    """As the protocol's metadata has them: -1 for dimensions of open size."""
    return [{"name": each.name, "datatype": from_np_dtype(np.dtype(each.dtype)),
             "shape": [dim.min if dim.min == dim.max else -1 for dim in each.shape]} for each in bindings]


class Predictor(kserve.Model):
    def __init__(self, name, path, **options):
        super().__init__(name)
        self.path, self.options, self.plan = path, options, None

    def load(self):
        # A copy: what happens to the file does not end the server.
        self.plan = pysinter.load(self.path, copy=True, **self.options)
        if self.plan.states:
            raise pysinter.UsageError(f"'{self.path}' keeps states between runs, which requests of many clients would share")
        self.ready = True
        return True

    async def get_input_types(self):
        return describe(self.plan.inputs)

    async def get_output_types(self):
        return describe(self.plan.outputs)

    async def predict(self, payload, headers=None, response_headers=None):
        if not isinstance(payload, InferRequest):
            raise InvalidInput(f"this model takes tensors by their names: POST /v2/models/{self.name}/infer")
        try:
            inputs = {each.name: each.as_numpy() for each in payload.inputs}
            # The event loop goes on taking requests while the plan runs.
            result = await self.plan.call_async(**inputs)
        except (pysinter.UsageError, TypeError) as error:
            raise InvalidInput(str(error)) from None
        outputs = []
        for binding, array in zip(self.plan.outputs, result if isinstance(result, pysinter.Outputs) else (result,)):
            outputs.append(InferOutput(binding.name, list(array.shape), from_np_dtype(array.dtype)))
            outputs[-1].set_data_from_numpy(array)
        return InferResponse(payload.id or generate_uuid(), self.name, outputs, use_binary_outputs=payload.use_binary_outputs,
                             requested_outputs=payload.request_outputs)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                parents=[kserve.model_server.parser])  # it has --model_name
    p.add_argument("--plan", required=True)
    p.add_argument("--threads", type=int, default=0, help="most threads of a call on the CPU; 0: all")
    a = p.parse_args()
    model = Predictor(a.model_name, a.plan, threads=a.threads)
    model.load()
    kserve.ModelServer().start([model])


if __name__ == "__main__":
    main()
