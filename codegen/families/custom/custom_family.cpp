// SPDX-License-Identifier: Apache-2.0
// Regions of one CustomKernel and the epilogues of its outputs: the user's CUDA text, launched as
// its definition says.
#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "codegen/emit/arguments.h"
#include "codegen/emit/kernel_text.h"
#include "codegen/families/custom/custom_epilogue.h"
#include "codegen/families/custom/custom_program.h"
#include "codegen/families/family.h"
#include "codegen/program/loop_lowering.h"
#include "runtime/plan/hash.h"

namespace sinter::codegen {
namespace {

/// "namespace types { typedef f16 x; .. }".
std::string types_text(const CustomProgram& program, const std::vector<DType>& types) {
  const std::vector<std::string> names = program.names();
  std::string text = "namespace types {\n";
  for (std::size_t i = 0; i < std::min(names.size(), types.size()); ++i)
    text += fmt::format("typedef {} {};\n", storage_name(types[i]), names[i]);
  return text + "}\n";
}

/// Precompiled code, by architecture.
std::map<std::string, std::vector<std::byte>> cubins_of(const CustomProgram& program) {
  std::map<std::string, std::vector<std::byte>> result;
  for (const std::string& line : split_text(program.node().attrs.get_string("cubins"), '\n')) {
    const std::vector<std::string> words = split_text(line, ' ');
    if (words.size() != 2 || words[1].size() % 2 != 0)
      program.refuse("its code is not an architecture and bytes");
    std::vector<std::byte>& bytes = result[words[0]];
    for (std::size_t i = 0; i < words[1].size(); i += 2) {
      unsigned value = 0;
      const char* const digits = words[1].data() + i;
      if (std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2)
        program.refuse("its code is not written in hexadecimal digits");
      bytes.push_back(static_cast<std::byte>(value));
    }
  }
  return result;
}

/// Buffers of the operator's tensors and workspace, and its epilogues.
struct CustomBuffers {
  std::vector<std::uint32_t> inputs, workspace;
  std::vector<std::optional<std::uint32_t>> outputs;  // none if an epilogue writes
  std::vector<CustomEpilogue> epilogues;
  std::vector<DType> types;  // of inputs, then of outputs

  std::vector<std::uint32_t> all() const {
    std::vector<std::uint32_t> buffers = inputs;
    for (const auto& output : outputs)
      if (output) buffers.push_back(*output);
    buffers.insert(buffers.end(), workspace.begin(), workspace.end());
    for (const CustomEpilogue& epilogue : epilogues)
      buffers.insert(buffers.end(), epilogue.buffers.begin(), epilogue.buffers.end());
    return buffers;
  }
};

/// Converts to a pointer of any type that the function takes.
constexpr std::string_view kWorkspace = R"(namespace epilogues {
struct Workspace {
  void* bytes;
  template <class T>
  SINTER_DEVICE operator T*() const {
    return static_cast<T*>(bytes);
  }
};
}
)";

class CustomKernel final : public KernelProgram {
 public:
  /// The node's graph must outlive the program.
  CustomKernel(CustomProgram program, CustomBuffers buffers)
      : program_(std::move(program)), buffers_(std::move(buffers)) {}

  std::string signature(const ExprTable& exprs) const override {
    const ir::Attrs& attrs = program_.node().attrs;
    std::string text = fmt::format("custom {} {} {} {}", attrs.get_string("operator"),
                                   attrs.get_string("launches"), attrs.get_string("source"),
                                   attrs.get_string("cubins"));
    for (const Dim& dim : attrs.get_dims("dims")) text += " " + dim.to_string();
    for (const DType type : buffers_.types) text += fmt::format(" {}", to_string(type));
    for (const CustomEpilogue& epilogue : buffers_.epilogues) {
      plan::fb::LoopProgramT local = epilogue.program;
      for (std::uint32_t b = 0; b < local.buffers.size(); ++b)
        if (local.buffers[b] != kStoredValue) local.buffers[b] = b;
      text += fmt::format("\nepilogue {}\n{}", epilogue.output, print_loop_program(local, exprs));
    }
    return text;
  }
  std::vector<std::uint32_t> buffers() const override { return buffers_.all(); }

  EmittedKernel emit(KernelRequest request, ExprTable& exprs) const override {
    EmittedKernel kernel;
    kernel.custom_operator = program_.node().attrs.get_string("operator");
    kernel.cubins = cubins_of(program_);
    kernel.source = kernel_heading(request.name, request.origins);
    for (const auto& [architecture, code] : kernel.cubins)
      kernel.source += fmt::format("// code for {}: {} bytes that the operator's maker brought\n",
                                   architecture, code.size());
    const std::map<std::size_t, EpilogueText> epilogues = epilogue_texts(request, exprs);
    if (kernel.cubins.empty()) {
      std::set<std::string> headers{"scalar.cuh"};
      std::string text = types_text(program_, buffers_.types);
      for (const auto& [output, epilogue] : epilogues) {
        headers.insert(epilogue.headers.begin(), epilogue.headers.end());
        text += epilogue.text;
      }
      if (!epilogues.empty() && !buffers_.workspace.empty()) text += kWorkspace;
      for (const std::string& header : headers)
        kernel.source += fmt::format("#include \"{}\"\n", header);
      kernel.source += "\n" + text + program_.node().attrs.get_string("source");
    }
    if (!kernel.source.ends_with('\n')) kernel.source += '\n';
    for (std::size_t i = 0; i < program_.launches().size(); ++i)
      (i == 0 ? kernel.step : kernel.more.emplace_back()) =
          step(program_.launches()[i], epilogues, exprs, kernel.source);
    return kernel;
  }

 private:
  using Kind = CustomArgument::Kind;
  using EpilogueTexts = std::map<std::size_t, EpilogueText>;

  EpilogueTexts epilogue_texts(const KernelRequest& request, ExprTable& exprs) const {
    std::map<std::uint32_t, DType> types;
    const std::vector<std::uint32_t> all = buffers_.all();
    for (std::size_t b = 0; b < all.size(); ++b) types[all[b]] = request.buffer_types[b];
    EpilogueTexts texts;
    for (const CustomEpilogue& epilogue : buffers_.epilogues) {
      std::vector<DType> own;
      for (const std::uint32_t buffer : epilogue.buffers) own.push_back(types.at(buffer));
      texts.emplace(epilogue.output,
                    epilogue_text(epilogue, output_name(epilogue.output), own, request, exprs));
    }
    return texts;
  }

  std::string output_name(std::size_t output) const {
    const std::vector<std::string> names = program_.names();
    const std::size_t at = buffers_.inputs.size() + output;
    if (at >= names.size()) program_.refuse(fmt::format("output {} has no name", output));
    return names[at];
  }

  plan::fb::KernelStepT step(const CustomLaunch& launch, const EpilogueTexts& epilogues,
                             ExprTable& exprs, std::string& source) const {
    plan::fb::KernelStepT result;
    auto variant = std::make_unique<KernelVariantT>();
    variant->function = launch.function;
    for (const Dim& extent : launch.grid) variant->grid.push_back(exprs.intern(extent));
    variant->block.assign(launch.block.begin(), launch.block.end());
    variant->shared_bytes = static_cast<std::uint32_t>(launch.shared_bytes.value());
    variant->cluster = launch.cluster;
    variant->schedule = "custom";
    if (program_.epilogues(launch).empty()) {
      for (const std::string& text : launch.arguments)
        result.args.push_back(argument(program_.argument(text), exprs));
    } else {
      variant->function += "_with_epilogue";
      source += kernel_around(launch, variant->function, epilogues, exprs, result.args);
    }
    result.variants.push_back(std::move(variant));
    return result;
  }

  KernelArg argument(const CustomArgument& given, ExprTable& exprs) const {
    switch (given.kind) {
      case Kind::kInput: return {ArgKind::Buffer, buffers_.inputs[given.number]};
      case Kind::kOutput: return {ArgKind::Buffer, buffers_.outputs[given.number].value()};
      case Kind::kWorkspace: return {ArgKind::Buffer, buffers_.workspace[given.number]};
      case Kind::kSize: return {ArgKind::Int64, exprs.intern(program_.size(given))};
      case Kind::kInt:
      case Kind::kFloat: return {ArgKind::Int32, exprs.intern(program_.size(given))};
      case Kind::kEpilogue: break;
    }
    throw Error(ErrorCode::kInternal, "an epilogue is no argument of a kernel");
  }

  /// The kernel that calls the launch's function; its parameters include those of the epilogues.
  /// Constant sizes are literals: a 0 for a pointer then stays a null pointer.
  std::string kernel_around(const CustomLaunch& launch, const std::string& name,
                            const EpilogueTexts& epilogues, ExprTable& exprs,
                            std::vector<KernelArg>& args) const {
    const std::vector<std::string> names = program_.names();
    std::vector<std::string> parameters, passed, made;
    for (const std::string& text : launch.arguments) {
      const CustomArgument given = program_.argument(text);
      if (given.kind == Kind::kEpilogue) {
        passed.push_back(output_name(given.number));
        made.push_back(fmt::format("  const epilogues::{0} {0} = {1};\n", passed.back(),
                                   epilogues.at(given.number).value));
        continue;
      }
      if (given.kind == Kind::kSize && program_.size(given).is_constant()) {
        passed.push_back(int_literal(program_.size(given).value()));
        continue;
      }
      passed.push_back(fmt::format("a{}", parameters.size()));
      parameters.push_back(fmt::format("{} {}", parameter_type(given, names), passed.back()));
      if (given.kind == Kind::kWorkspace)
        passed.back() = fmt::format("epilogues::Workspace{{{}}}", passed.back());
      args.push_back(argument(given, exprs));
    }
    for (const std::size_t output : program_.epilogues(launch)) {
      const EpilogueText& epilogue = epilogues.at(output);
      parameters.insert(parameters.end(), epilogue.parameters.begin(), epilogue.parameters.end());
      args.insert(args.end(), epilogue.args.begin(), epilogue.args.end());
    }
    const auto& block = launch.block;
    std::string text = fmt::format("\n#line 1 \"the kernel around {}\"\n", launch.function);
    text += fmt::format("extern \"C\" __global__ void __launch_bounds__({})\n{} {{\n",
                        block[0] * block[1] * block[2], signature_text(name, parameters));
    for (const std::string& line : made) text += line;
    return text + fmt::format("  {}({});\n}}\n", launch.function, fmt::join(passed, ", "));
  }

  std::string parameter_type(const CustomArgument& given,
                             const std::vector<std::string>& names) const {
    switch (given.kind) {
      case Kind::kInput: return fmt::format("const types::{}*", names.at(given.number));
      case Kind::kOutput:
        return fmt::format("types::{}*", names.at(buffers_.inputs.size() + given.number));
      case Kind::kWorkspace: return "void*";
      case Kind::kInt: return "i32";
      case Kind::kFloat: return "float";
      case Kind::kSize:
      case Kind::kEpilogue: break;
    }
    return "i64";
  }

  CustomProgram program_;
  CustomBuffers buffers_;
};

class CustomFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "custom"; }

  std::string takes(const Region& region, const ir::TargetTraits& target) const override {
    if (region.kind() != "custom") return "it is no operator of the user's";
    return target.generates_kernels ? "" : "this target runs no CUDA text";
  }

  std::vector<StepTactics> lower(const Region& region, PlanContext& plan) const override {
    const Graph& body = *region.node.body;
    const auto at = std::ranges::find_if(
        body.nodes(), [](const Node& node) { return node.op->name == "CustomKernel"; });
    if (at == body.nodes().end())
      throw Error(ErrorCode::kUnsupported, "a region of kind 'custom' must have a CustomKernel");
    const Node& node = *at;
    const CustomProgram program(node);
    for (const CustomLaunch& launch : program.launches())
      if (!launch.shared_bytes.is_constant())
        program.refuse(fmt::format("the shared memory of '{}' depends on sizes that are not known",
                                   launch.function));
    StepTactics result{step_of(region), {}};
    CustomBuffers buffers = buffers_of(region, node, plan);
    for (const std::uint32_t buffer : buffers.all())
      if (std::ranges::find(region.inputs, buffer) == region.inputs.end() &&
          std::ranges::find(result.step.writes, buffer) == result.step.writes.end())
        result.step.writes.push_back(buffer);
    set_cost(result.step, cost_of_body(body, node), plan.exprs);
    const std::size_t launches = program.launches().size();
    note_code(node, plan);
    Tactic tactic = only(region.name, std::make_shared<CustomKernel>(program, std::move(buffers)));
    if (launches > 1) {
      tactic.name = "custom";
      tactic.parts.resize(launches);
    }
    result.tactics.push_back(std::move(tactic));
    std::vector<StepTactics> steps;
    steps.push_back(std::move(result));
    return steps;
  }

 private:
  static CustomBuffers buffers_of(const Region& region, const Node& node, PlanContext& plan) {
    const Graph& body = *region.node.body;
    CustomBuffers buffers;
    for (const ValueId input : node.inputs) {
      const auto number = body.input_number(input);
      if (!number)
        throw Error(ErrorCode::kInternal, "a user's kernel reads no input of its region");
      buffers.inputs.push_back(region.inputs[*number]);
      buffers.types.push_back(body.type(input).dtype);
    }
    for (const ValueId output : node.outputs) buffers.types.push_back(body.type(output).dtype);
    const auto& epilogues = node.attrs.get_ints("epilogues");
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const auto found = std::ranges::find(body.outputs(), node.outputs[i]);
      const bool has_epilogue = std::ranges::count(epilogues, static_cast<std::int64_t>(i)) != 0;
      const bool is_read = has_epilogue && !stored_outputs(body, node, i).empty();
      std::optional<std::uint32_t> own;
      if (found != body.outputs().end())
        own = region.outputs[static_cast<std::size_t>(found - body.outputs().begin())];
      else if (!is_read)
        own = plan.buffers.scratch(body.type(node.outputs[i]));
      if (has_epilogue)
        buffers.epilogues.push_back(lower_epilogue(body, node, i, region.inputs, region.outputs,
                                                   own.value_or(0), plan.exprs));
      buffers.outputs.push_back(has_epilogue ? std::nullopt : own);
    }
    for (const Dim& size : node.attrs.get_dims("workspace"))
      buffers.workspace.push_back(plan.buffers.scratch({DType::kUInt8, {size}}));
    return buffers;
  }

  /// Traffic of the region, and one operation for each element of the kernel's results.
  static StepCost cost_of_body(const Graph& body, const Node& node) {
    const auto bytes = [&](ValueId value) {
      const ir::TensorType& type = body.type(value);
      return ir::element_count(type.shape) * Dim(static_cast<std::int64_t>(size_of(type.dtype)));
    };
    StepCost cost;
    for (const ValueId input : body.inputs()) cost.bytes_read += bytes(input);
    for (const ValueId output : body.outputs()) cost.bytes_written += bytes(output);
    for (const ValueId output : node.outputs) {
      cost.flops += bytes(output);
      if (body.nodes().size() == 1 && std::ranges::count(body.outputs(), output) == 0)
        cost.bytes_written += bytes(output);  // scratch memory
    }
    return cost;
  }

  /// Records in the plan that it contains code that is not Sinter's.
  static void note_code(const Node& node, PlanContext& plan) {
    plan::fb::CustomCodeT code;
    code.name = node.attrs.get_string("operator");
    const std::string& cubins = node.attrs.get_string("cubins");
    code.kind = cubins.empty() ? plan::fb::CodeKind::Text : plan::fb::CodeKind::Binary;
    code.hash = plan::hash64(cubins.empty() ? node.attrs.get_string("source") : cubins);
    if (std::ranges::none_of(plan.custom_code, [&](const auto& known) {
          return known.name == code.name && known.hash == code.hash;
        }))
      plan.custom_code.push_back(std::move(code));
  }
};

}  // namespace

const KernelFamily& custom_family() {
  static const CustomFamily family;
  return family;
}

}  // namespace sinter::codegen
