# SPDX-License-Identifier: Apache-2.0
"""What a typed program does with the package; mypy reads it, nobody runs it (test_package.py)."""
import numpy as np

import pysinter
from pysinter.triton import write_model


async def main(x: np.ndarray) -> None:
    plan = pysinter.compile("model.onnx", "model.plan", dims={"batch": (1, 32)}, precision="fp16", verify={"runs": 2})
    print(plan.report.accuracy, plan.diagnostics[0].node, plan.inputs[0].shape[0].max, plan.graph().splitlines())
    loaded: pysinter.Plan = pysinter.load(plan.to_bytes(), max_sessions=2)
    print(plan(x).shape, loaded(x=x, out=x)["y"] + 1, (await plan.call_async(x)).mean())

    table = loaded.run_table({"x": x}, columns={"x": ["x"]}, nulls="nan", cast=True)
    print(table["y"].sum(), pysinter.Table([]).rows)
    loaded.run_table({"x": x}, columns=5)  # error: arg-type

    session = loaded.session()
    print(session.run(x, out=None).sum(), session.output("y")[0], session.plan.outputs[0].name, session.memory["io"])
    session.warm_up({"x": (1, 8)})
    outputs: dict[str, np.ndarray] = session.outputs
    print(outputs["y"].dtype)

    accuracy = pysinter.verify("model.onnx", target="cpu", inputs={"x": x}, max_error=1e-3)
    report = pysinter.compare("model.onnx", shapes={"x": (1, 8)}, rounds=3)
    print(accuracy.outputs[0].ok, report.variants[0].compute.median, pysinter.profile(plan).steps[0].bound)
    print(pysinter.why("model.onnx", "a", "b")["reason"], pysinter.inspect(plan, "steps").keys())
    pysinter.report(plan, measure=False, against=pysinter.report("model.onnx", precision="fp16")).save("report.html")
    try:
        pysinter.load("absent.plan")
    except pysinter.FileError as error:
        print(error.errno, error.filename, error.code)
    try:
        pysinter.set_threads(2)
    except pysinter.UsageError as error:
        print(error.code, error.node, error.hint, error.diagnostics)
    print(pysinter.gpus()[0].name, pysinter.get_threads(), pysinter.__version__)
    async for part in pysinter.Engine(plan).stream_async("Once", max_tokens=3):
        print(part.text.upper(), part.finish)
    print(write_model("model.plan", "repository", gpus=[0], copy=False).name)
    write_model("model.plan", "repository", gpus=0)  # error: arg-type
    plan.no_such_method()  # error: attr-defined
    session.plan.no_such_method()  # error: attr-defined
    pysinter.load(5)  # error: arg-type
