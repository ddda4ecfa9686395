// Regions of one CustomKernel: the user's CUDA text, launched as its definition says.
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <sstream>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "codegen/emit/arguments.h"
#include "codegen/emit/kernel_text.h"
#include "codegen/families/family.h"
#include "runtime/plan/hash.h"

namespace sinter::codegen {
namespace {

/// A line of the operator's `launches`.
struct Launch {
  std::string function;
  std::vector<Dim> grid;  // three
  std::array<std::uint32_t, 3> block{1, 1, 1};
  Dim shared_bytes = 0;
  std::uint32_t cluster = 1;
  std::vector<std::string> arguments;  // "in0", "out1", "work0", "dim2", "int3"
};

[[noreturn]] void refuse(const Node& node, const std::string& why) {
  throw Error(ErrorCode::kInvalidModel,
              fmt::format("operator '{}': {}", node.attrs.get_string("operator"), why));
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

class Program {
 public:
  Program(const Node& node, std::vector<std::uint32_t> inputs, std::vector<std::uint32_t> outputs)
      : node_(node), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {
    for (const std::string& line : split(node.attrs.get_string("launches"), '\n'))
      launches.push_back(read(line));
    if (launches.empty()) refuse(node, "it has no kernels");
  }

  /// A buffer's place among inputs, outputs and workspace, or a size.
  std::variant<std::size_t, Dim> argument(const std::string& text) const {
    if (is_narrow(text)) return dim(text.substr(3));
    const auto& workspace = node_.attrs.get_dims("workspace");
    std::size_t before = 0;
    for (const auto& [kind, count] :
         {std::pair<std::string_view, std::size_t>{"in", inputs_.size()},
          {"out", outputs_.size()},
          {"work", workspace.size()}}) {
      if (text.starts_with(kind)) return before + number(text.substr(kind.size()), count);
      before += count;
    }
    if (!text.starts_with("dim")) refuse(node_, fmt::format("there is no argument '{}'", text));
    return dim(text.substr(3));
  }

  /// Whether it is a number of 32 bits.
  static bool is_narrow(const std::string& text) { return text.starts_with("int"); }

  const Node& node() const { return node_; }

  std::vector<Launch> launches;

 private:
  std::size_t number(const std::string& text, std::size_t count) const {
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value >= count)
      refuse(node_, fmt::format("'{}' is no number below {}", text, count));
    return value;
  }
  const Dim& dim(const std::string& text) const {
    const auto& dims = node_.attrs.get_dims("dims");
    return dims[number(text, dims.size())];
  }
  Launch read(const std::string& line) const {
    constexpr std::size_t kMostThreads = 1024, kMostCluster = 8;
    Launch launch;
    const std::vector<std::string> words = split(line, ' ');
    for (std::size_t w = 0; w < words.size(); ++w) {
      const std::size_t at = words[w].find('=');
      const std::string key = words[w].substr(0, at);
      const std::vector<std::string> values = at == std::string::npos
                                                  ? std::vector<std::string>()
                                                  : split(words[w].substr(at + 1), ',');
      if (w == 0 && at == std::string::npos) {
        launch.function = key;
      } else if (key == "grid" && values.size() <= 3) {
        for (const std::string& value : values) launch.grid.push_back(dim(value));
      } else if (key == "block" && values.size() <= 3) {
        for (std::size_t d = 0; d < values.size(); ++d)
          launch.block[d] = static_cast<std::uint32_t>(number(values[d], kMostThreads + 1));
      } else if (key == "cluster" && values.size() == 1) {
        launch.cluster = static_cast<std::uint32_t>(number(values[0], kMostCluster + 1));
      } else if (key == "shared" && values.size() == 1) {
        launch.shared_bytes = dim(values[0]);
      } else if (key == "args") {
        launch.arguments = values;
      } else {
        refuse(node_, fmt::format("'{}' says nothing of a launch", words[w]));
      }
    }
    const std::size_t threads = std::size_t{launch.block[0]} * launch.block[1] * launch.block[2];
    if (launch.function.empty() || launch.cluster == 0 || threads == 0 || threads > kMostThreads)
      refuse(node_, fmt::format("the launch '{}' is none", line));
    launch.grid.resize(3, Dim(1));
    return launch;
  }

  const Node& node_;
  std::vector<std::uint32_t> inputs_, outputs_;
};

/// "namespace types { typedef f16 x; .. }".
std::string types_text(const Node& node, const std::vector<DType>& types) {
  const std::vector<std::string> names = split(node.attrs.get_string("names"), ',');
  std::string text = "namespace types {\n";
  for (std::size_t i = 0; i < std::min(names.size(), types.size()); ++i)
    text += fmt::format("typedef {} {};\n", storage_name(types[i]), names[i]);
  return text + "}\n";
}

/// Code that was compiled before, by architecture.
std::map<std::string, std::vector<std::byte>> cubins_of(const Node& node) {
  std::map<std::string, std::vector<std::byte>> result;
  for (const std::string& line : split(node.attrs.get_string("cubins"), '\n')) {
    const std::vector<std::string> words = split(line, ' ');
    if (words.size() != 2 || words[1].size() % 2 != 0)
      refuse(node, "its code is not an architecture and bytes");
    std::vector<std::byte>& bytes = result[words[0]];
    for (std::size_t i = 0; i < words[1].size(); i += 2) {
      unsigned value = 0;
      const char* const digits = words[1].data() + i;
      if (std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2)
        refuse(node, "its code is not written in hexadecimal digits");
      bytes.push_back(static_cast<std::byte>(value));
    }
  }
  return result;
}

class CustomKernel final : public KernelProgram {
 public:
  /// `buffers`: of inputs, outputs and workspace, in this order. The graph that the node is of
  /// lives as long as plans are made.
  CustomKernel(Program program, std::vector<std::uint32_t> buffers, std::size_t tensors)
      : program_(std::move(program)), buffers_(std::move(buffers)), tensors_(tensors) {}

  std::string signature(const ExprTable&) const override {
    const ir::Attrs& attrs = program_.node().attrs;
    std::string text = fmt::format("custom {} {} {} {}", attrs.get_string("operator"),
                                   attrs.get_string("launches"), attrs.get_string("source"),
                                   attrs.get_string("cubins"));
    for (const Dim& dim : attrs.get_dims("dims")) text += " " + dim.to_string();
    return text;
  }
  std::vector<std::uint32_t> buffers() const override { return buffers_; }

  EmittedKernel emit(KernelRequest request, ExprTable& exprs) const override {
    EmittedKernel kernel;
    kernel.custom_operator = program_.node().attrs.get_string("operator");
    kernel.cubins = cubins_of(program_.node());
    kernel.source = kernel_heading(request.name, request.origins);
    std::vector<DType> types(request.buffer_types.begin(),
                             request.buffer_types.begin() + static_cast<std::ptrdiff_t>(tensors_));
    for (const auto& [architecture, code] : kernel.cubins)
      kernel.source += fmt::format("// code for {}: {} bytes that the operator's maker brought\n",
                                   architecture, code.size());
    if (kernel.cubins.empty())
      kernel.source += "#include \"scalar.cuh\"\n\n" + types_text(program_.node(), types) +
                       program_.node().attrs.get_string("source");
    if (!kernel.source.ends_with('\n')) kernel.source += '\n';
    for (std::size_t i = 0; i < program_.launches.size(); ++i)
      (i == 0 ? kernel.step : kernel.more.emplace_back()) = step(program_.launches[i], exprs);
    return kernel;
  }

 private:
  plan::fb::KernelStepT step(const Launch& launch, ExprTable& exprs) const {
    plan::fb::KernelStepT result;
    auto variant = std::make_unique<KernelVariantT>();
    variant->function = launch.function;
    for (const Dim& extent : launch.grid) variant->grid.push_back(exprs.intern(extent));
    variant->block.assign(launch.block.begin(), launch.block.end());
    variant->shared_bytes = static_cast<std::uint32_t>(launch.shared_bytes.value());
    variant->cluster = launch.cluster;
    variant->schedule = "custom";
    result.variants.push_back(std::move(variant));
    for (const std::string& text : launch.arguments) {
      const auto argument = program_.argument(text);
      if (const auto* place = std::get_if<std::size_t>(&argument))
        result.args.emplace_back(ArgKind::Buffer, buffers_[*place]);
      else
        result.args.emplace_back(Program::is_narrow(text) ? ArgKind::Int32 : ArgKind::Int64,
                                 exprs.intern(std::get<Dim>(argument)));
    }
    return result;
  }

  Program program_;
  std::vector<std::uint32_t> buffers_;
  std::size_t tensors_;  // inputs and outputs
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
    const Node* node = body.nodes().size() == 1 ? &body.nodes()[0] : nullptr;
    if (node == nullptr || node->op->name != "CustomKernel")
      throw Error(ErrorCode::kUnsupported, "a region of kind 'custom' must be one CustomKernel");
    std::vector<std::uint32_t> inputs, outputs(node->outputs.size());
    Dim read = 0, written = 0;
    const auto bytes = [&](ValueId value) {
      const ir::TensorType& type = body.type(value);
      return ir::element_count(type.shape) * Dim(static_cast<std::int64_t>(size_of(type.dtype)));
    };
    for (const ValueId input : node->inputs) {
      inputs.push_back(region.inputs[*body.input_number(input)]);
      read += bytes(input);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const auto at = std::ranges::find(body.outputs(), node->outputs[i]);
      outputs[i] = at == body.outputs().end()
                       ? plan.buffers.scratch(body.type(node->outputs[i]))
                       : region.outputs[static_cast<std::size_t>(at - body.outputs().begin())];
      written += bytes(node->outputs[i]);
    }
    StepTactics result{step_of(region), {}};
    std::vector<std::uint32_t> buffers = inputs;
    buffers.insert(buffers.end(), outputs.begin(), outputs.end());
    const std::size_t tensors = buffers.size();
    for (const Dim& size : node->attrs.get_dims("workspace"))
      buffers.push_back(plan.buffers.scratch({DType::kUInt8, {size}}));
    for (std::size_t i = inputs.size(); i < buffers.size(); ++i)
      if (std::ranges::find(result.step.writes, buffers[i]) == result.step.writes.end())
        result.step.writes.push_back(buffers[i]);
    Program program(*node, inputs, outputs);
    for (const Launch& launch : program.launches)
      if (!launch.shared_bytes.is_constant())
        refuse(*node, fmt::format("the shared memory of '{}' depends on sizes that are not known",
                                  launch.function));
    set_cost(result.step, {read, written, written}, plan.exprs);
    const std::size_t launches = program.launches.size();
    Tactic tactic = only(region.name, std::make_shared<CustomKernel>(program, buffers, tensors));
    if (launches > 1) {
      tactic.name = "custom";
      tactic.parts.resize(launches);
    }
    result.tactics.push_back(std::move(tactic));
    note_code(*node, plan);
    std::vector<StepTactics> steps;
    steps.push_back(std::move(result));
    return steps;
  }

 private:
  /// The plan says that it has code that is not Sinter's.
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
