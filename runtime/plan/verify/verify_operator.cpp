// SPDX-License-Identifier: Apache-2.0
// Verifies operator calls: the user's, and the runtime's own by their definitions.
#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

#include "runtime/plan/operators/operator_def.h"
#include "runtime/plan/verify/verify_kinds.h"

namespace sinter::plan {
namespace {

using Tensors = std::vector<std::unique_ptr<fb::HostTensorT>>;

/// `def`: of an operator of the runtime's own, whose outputs may change an input in place.
void add_tensors(const Checker& check, const Tensors& inputs, const Tensors& outputs, Uses& uses,
                 const OperatorDef* def = nullptr) {
  const auto add = [&](const fb::HostTensorT& tensor, const char* what, Buffers& to) {
    check.dtype(check.buffer(tensor.buffer, what).dtype, what);
    check.rank(tensor.shape.size(), what);
    check.expressions(tensor.shape, "a size");
    return to.insert(tensor.buffer).second;
  };
  for (const auto& input : inputs) add(*input, "its input", uses.reads);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::uint32_t buffer = outputs[i]->buffer;
    const int changed = def == nullptr ? -1 : def->outputs[i].changes;
    bool is_own = true;
    for (std::size_t k = 0; k < inputs.size(); ++k)
      is_own = is_own && (inputs[k]->buffer != buffer || std::cmp_equal(k, changed));
    if (!add(*outputs[i], "its output", uses.writes) || !is_own)
      check.fail("its output lies in buffer {}, where another of its tensors does", buffer);
  }
  if (outputs.empty()) check.fail("it has no outputs");
}

void verify_operand(const Checker& check, const OperandDef& def, const fb::HostTensorT& tensor,
                    DType first) {
  const fb::BufferT& buffer = *check.plan.buffers[tensor.buffer];
  const auto type = static_cast<DType>(buffer.dtype);
  const std::vector<DType> types = def.types.empty() ? std::vector{first} : def.types;
  if (std::ranges::find(types, type) == types.end()) {
    std::vector<std::string_view> names;
    for (const DType known : types) names.push_back(to_string(known));
    check.fail("its {} are of type {}, not of {}", def.name, to_string(type),
               fmt::join(names, " or "));
  }
  if (tensor.shape.size() != rank_of(def.shape))
    check.fail("its {} have {} dimensions, not those of [{}]", def.name, tensor.shape.size(),
               def.shape);
  if (def.memory != OperandMemory::kAny && buffer.kind != fb::BufferKind::Weight)
    check.fail("its {} are no weights", def.name);
}

void verify_attributes(const Checker& check, const OperatorDef& def,
                       const std::vector<std::unique_ptr<fb::HostAttributeT>>& attributes) {
  if (attributes.size() != def.attributes.size())
    check.fail("it has {} attributes, operator '{}' has {}", attributes.size(), def.name,
               def.attributes.size());
  for (const AttributeDef& wanted : def.attributes) {
    const auto found = std::ranges::find_if(
        attributes, [&](const auto& given) { return given->name == wanted.name; });
    if (found == attributes.end() || (*found)->is_float != wanted.is_float)
      check.fail("it has no attribute '{}' that is {}", wanted.name,
                 wanted.is_float ? "a float" : "an integer");
    const std::int64_t value = (*found)->integer;
    if (!wanted.is_float && (value < wanted.min || value > wanted.max))
      check.fail("its attribute '{}' is {}, operator '{}' takes {} to {}", wanted.name, value,
                 def.name, wanted.min, wanted.max);
  }
}

}  // namespace

void verify_host(const Checker& check, const fb::HostStepT& work, Uses& uses) {
  // The plan must declare all its code to the loader.
  if (std::ranges::none_of(check.plan.custom_code, [&](const auto& code) {
        return code->kind == fb::CodeKind::Host && code->name == work.operator_name;
      }))
    check.fail("operator '{}' is not among the plan's custom code", work.operator_name);
  add_tensors(check, work.inputs, work.outputs, uses);
  for (const auto& attribute : work.attributes)
    if (attribute->name.empty()) check.fail("it has an attribute without a name");
}

void verify_operator(const Checker& check, const fb::OperatorStepT& work, Uses& uses) {
  const OperatorDef* def = find_operator(work.operator_name);
  if (def == nullptr) check.fail("this library has no operator '{}'", work.operator_name);
  if (check.plan.target == "cuda")
    check.fail("operator '{}' cannot run on target '{}'", def->name, check.plan.target);
  if (work.inputs.size() != def->inputs.size() || work.outputs.size() != def->outputs.size())
    check.fail("it has {} inputs and {} outputs, operator '{}' has {} and {}", work.inputs.size(),
               work.outputs.size(), def->name, def->inputs.size(), def->outputs.size());
  add_tensors(check, work.inputs, work.outputs, uses, def);
  const auto first = static_cast<DType>(
      check.plan.buffers[work.inputs.empty() ? work.outputs[0]->buffer : work.inputs[0]->buffer]
          ->dtype);
  for (std::size_t i = 0; i < def->inputs.size(); ++i)
    verify_operand(check, def->inputs[i], *work.inputs[i], first);
  for (std::size_t i = 0; i < def->outputs.size(); ++i)
    verify_operand(check, def->outputs[i], *work.outputs[i], first);
  verify_attributes(check, *def, work.attributes);
}

}  // namespace sinter::plan
