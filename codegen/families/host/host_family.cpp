// SPDX-License-Identifier: Apache-2.0
// Regions of one HostOperator: a call of a function that is not in the plan.
#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/families/operator_family.h"

namespace sinter::codegen {
namespace {

/// Parses the lines of the operator's `values`.
std::vector<std::unique_ptr<plan::fb::HostAttributeT>> attributes_of(const Node& node) {
  std::vector<std::unique_ptr<plan::fb::HostAttributeT>> result;
  std::istringstream stream(node.attrs.get_string("values"));
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    std::string kind;
    auto made = std::make_unique<plan::fb::HostAttributeT>();
    words >> kind >> made->name;
    made->is_float = kind == "float";
    if (made->is_float)
      words >> made->real;
    else
      words >> made->integer;
    if (!words || !words.eof() || (kind != "float" && kind != "int"))
      throw Error(ErrorCode::kInvalidModel, fmt::format("operator '{}': '{}' is no attribute",
                                                        node.attrs.get_string("operator"), line));
    result.push_back(std::move(made));
  }
  return result;
}

class HostFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "host"; }

  std::string takes(const Region& region, const ir::TargetTraits&) const override {
    return region.kind() == "host" ? "" : "no library computes it";
  }

  std::vector<StepTactics> lower(const Region& region, PlanContext& plan) const override {
    const Graph& body = *region.node.body;
    const Node* node = body.nodes().size() == 1 ? &body.nodes()[0] : nullptr;
    if (node == nullptr || node->op->name != "HostOperator")
      throw Error(ErrorCode::kUnsupported, "a region of kind 'host' must be one HostOperator");
    StepTactics result{step_of(region), {}};
    plan::fb::HostStepT call;
    call.operator_name = node->attrs.get_string("operator");
    call.library = node->attrs.get_string("library");
    call.attributes = attributes_of(*node);
    Dim read = 0, written = 0;
    const auto add = [&](ValueId value, std::uint32_t buffer, Dim& bytes) {
      const ir::TensorType& type = body.type(value);
      bytes = bytes +
              ir::element_count(type.shape) * Dim(static_cast<std::int64_t>(size_of(type.dtype)));
      return operator_tensor({buffer, type.shape}, plan.exprs);
    };
    for (const ValueId input : node->inputs)
      call.inputs.push_back(add(input, region.inputs[*body.input_number(input)], read));
    for (const ValueId output : node->outputs) {
      const auto at = std::ranges::find(body.outputs(), output);
      const bool is_used = at != body.outputs().end();
      const std::uint32_t buffer =
          is_used ? region.outputs[static_cast<std::size_t>(at - body.outputs().begin())]
                  : plan.buffers.scratch(body.type(output));
      if (!is_used) result.step.writes.push_back(buffer);
      call.outputs.push_back(add(output, buffer, written));
    }
    set_cost(result.step, {read, written, written}, plan.exprs);
    note_code(call.operator_name, plan);
    result.tactics.push_back(only(std::move(call)));
    std::vector<StepTactics> steps;
    steps.push_back(std::move(result));
    return steps;
  }

 private:
  static void note_code(const std::string& name, PlanContext& plan) {
    plan::fb::CustomCodeT code;
    code.name = name;
    code.kind = plan::fb::CodeKind::Host;
    if (std::ranges::none_of(plan.custom_code, [&](const auto& known) {
          return known.name == code.name && known.kind == code.kind;
        }))
      plan.custom_code.push_back(std::move(code));
  }
};

}  // namespace

const KernelFamily& host_family() {
  static const HostFamily family;
  return family;
}

}  // namespace sinter::codegen
