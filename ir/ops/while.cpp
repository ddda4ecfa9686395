// SPDX-License-Identifier: Apache-2.0
// Loops whose number of iterations only the run knows: a node whose body runs repeatedly.
//
// While(first, state.., captured..) {trips, states, checked} body(i, state.., captured..)
//
// `first` is the number of the first iteration, an i64 scalar that is 0. The body's outputs are the
// states after an iteration, with unchanged types; the node's are those after the last. Captured
// values are the same in all iterations. There are `trips` iterations, or any number if it is
// empty. With `checked`, the first state is a bool scalar, and an iteration runs only if it is
// true.
#include <fmt/format.h>

#include "ir/ops/ops.h"

namespace sinter::ir::ops {
namespace {

std::vector<TensorType> infer_while(const Attrs& attrs, std::span<const TensorType> inputs) {
  const std::int64_t states = attrs.get_int("states");
  if (states < 1 || states >= static_cast<std::int64_t>(inputs.size()))
    invalid(fmt::format("has {} states and {} inputs; each state is an input behind the first",
                        states, inputs.size()));
  if (inputs[0] != TensorType{DType::kInt64, {}})
    invalid("the number of the first iteration must be i64[], found " + to_string(inputs[0]));
  if (attrs.get_dims("trips").size() > 1) invalid("trips must be one size, or none");
  const std::int64_t checked = attrs.get_int("checked");
  if (checked != 0 && checked != 1) invalid(fmt::format("checked is {}", checked));
  if (checked == 0 && attrs.get_dims("trips").empty())
    invalid("without a number of iterations the first state must say when to end");
  if (checked == 1 && inputs[1] != TensorType{DType::kBool, {}})
    invalid("the state that says whether to go on must be bool[], found " + to_string(inputs[1]));
  return {inputs.begin() + 1, inputs.begin() + 1 + states};
}

std::vector<TensorType> infer_placeholder(const Attrs& attrs, std::span<const TensorType>) {
  return {{attrs.get_dtype("dtype"), attrs.get_dims("shape")}};
}

}  // namespace

std::vector<OpDef> while_ops() {
  OpDef loop;
  loop.name = "While";
  loop.kind = OpKind::kWhile;
  loop.min_inputs = 2;
  loop.max_inputs = -1;
  loop.attrs = {{"trips", AttrKind::kDims, Attr(std::vector<Dim>{})},
                {"states", AttrKind::kInt, std::nullopt},
                {"checked", AttrKind::kInt, Attr(std::int64_t{0})}};
  loop.infer = infer_while;
  loop.has_body = true;

  // An input of a body that is built among the outer nodes; "id" makes them distinct.
  OpDef placeholder;
  placeholder.name = "Placeholder";
  placeholder.kind = OpKind::kWhile;
  placeholder.min_inputs = placeholder.max_inputs = 0;
  placeholder.attrs = {{"dtype", AttrKind::kDType, std::nullopt},
                       {"id", AttrKind::kInt, std::nullopt},
                       {"shape", AttrKind::kDims, std::nullopt}};
  placeholder.infer = infer_placeholder;
  return {loop, placeholder};
}

}  // namespace sinter::ir::ops
