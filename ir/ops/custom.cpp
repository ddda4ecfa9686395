// SPDX-License-Identifier: Apache-2.0
// Operators that users define.
//
// CustomKernel(inputs..) {operator, source, names, launches, dims, workspace, epilogues}
// body(inputs..)
//
// CUDA text, and the launches of its kernels. The body has the results' types and defines what the
// kernels compute: evaluation and targets without kernels use it. `names`: of inputs and outputs,
// comma-separated; the text knows their element types as types::NAME. `launches` has a line for
// each launch, "function grid=0,1,2 block=256,1,1 shared=3 cluster=1
// args=in0,out0,work0,dim4,int5,float6". Its grid, shared memory, and dim (64 bits), int and float
// (32 bits; floats as the integer with the same bits) arguments are indices into `dims`. `cubins`:
// code instead of the text, a line "sm_90 7f454c46.." (hexadecimal) for each architecture.
// `epilogues`: indices of outputs that the text writes only by store(i, value) of the argument:
// elementwise readers may be computed there. A launch with such an argument calls a device
// function, around which a kernel is generated. `workspace`: sizes in bytes of buffers that the
// kernels share.
//
// HostOperator(inputs..) {operator, library, values} body(inputs..)
//
// Computed by a function of a library that is not in the plan; the body as above. `values` has a
// line for each attribute, "int axis 3" or "float limit 2.5".
//
// NoReference(inputs..) {operator, dtype, shape}: the body of an operator that only its own code
// defines.
#include <fmt/format.h>

#include "ir/graph.h"
#include "ir/ops/ops.h"

namespace sinter::ir::ops {
namespace {

std::vector<Tensor> refuse_to_evaluate(const Attrs& attrs, Tensors, Types) {
  throw Error(
      ErrorCode::kUnsupported,
      fmt::format("operator '{}' has code of its own and no reference: give its outputs a 'value', "
                  "or name a model as its 'reference'",
                  attrs.get_string("operator")));
}

}  // namespace

std::vector<OpDef> custom_ops() {
  const OpDef with_body{.kind = OpKind::kLibrary,
                        .min_inputs = 0,
                        .max_inputs = -1,
                        .infer = [](const Attrs&, Types) { return std::vector<TensorType>(); },
                        .detail = CompositeDef{[](GraphBuilder& builder, const Node& node,
                                                  std::span<const ValueId> inputs) {
                          return inline_graph(builder, *node.body, inputs);
                        }},
                        .has_body = true,
                        .numerics = {.own_types = true}};
  OpDef kernel = with_body, host = with_body;
  kernel.name = "CustomKernel";
  kernel.kernel = "custom";
  kernel.attrs = {{"operator", AttrKind::kString, std::nullopt},
                  {"source", AttrKind::kString, std::nullopt},
                  {"cubins", AttrKind::kString, Attr(std::string())},
                  {"names", AttrKind::kString, std::nullopt},
                  {"launches", AttrKind::kString, std::nullopt},
                  {"dims", AttrKind::kDims, std::nullopt},
                  {"workspace", AttrKind::kDims, Attr(std::vector<Dim>{})},
                  {"epilogues", AttrKind::kInts, Attr(Ints{})}};
  host.name = "HostOperator";
  host.kernel = "host";
  host.attrs = {{"operator", AttrKind::kString, std::nullopt},
                {"library", AttrKind::kString, Attr(std::string())},
                {"values", AttrKind::kString, Attr(std::string())}};
  OpDef none{
      .name = "NoReference",
      .kind = OpKind::kLibrary,
      .min_inputs = 0,
      .max_inputs = -1,
      .attrs = {{"operator", AttrKind::kString, std::nullopt},
                {"dtype", AttrKind::kDType, std::nullopt},
                {"shape", AttrKind::kDims, std::nullopt}},
      .infer =
          [](const Attrs& attrs, Types) {
            return std::vector<TensorType>{{attrs.get_dtype("dtype"), attrs.get_dims("shape")}};
          },
      .evaluate = refuse_to_evaluate};
  return {kernel, host, none};
}

}  // namespace sinter::ir::ops
