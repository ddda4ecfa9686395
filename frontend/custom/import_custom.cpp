// SPDX-License-Identifier: Apache-2.0
#include "frontend/custom/import_custom.h"

#include <algorithm>
#include <bit>
#include <map>

#include <fmt/ranges.h>

#include "frontend/custom/expression.h"
#include "frontend/custom/sizes.h"
#include "frontend/ops/control/while_body.h"
#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

using ir::TensorType;

class CustomImport {
 public:
  CustomImport(NodeContext& node, const CustomOperator& op, const ImportReference& reference)
      : node_(node), op_(op), reference_(reference) {}

  void run() {
    if (node_.input_count() > op_.inputs.size())
      node_.invalid("it has {} inputs, but '{}' takes {}: {}", node_.input_count(), op_.full_name(),
                    op_.inputs.size(), fmt::join(op_.inputs, ", "));
    for (std::size_t i = 0; i < op_.inputs.size(); ++i)
      inputs_.push_back(node_.input(i, op_.inputs[i]));
    for (const auto& attribute : op_.attributes)
      attributes_.emplace(attribute.name, read(attribute));
    const auto results = op_.kernels.empty() ? without_kernels(inputs_) : with_kernels();
    if (!results) return;
    for (std::size_t i = 0; i < node_.output_count(); ++i) {
      if (i >= results->size())
        node_.invalid("it has {} outputs, but '{}' gives {}", node_.output_count(), op_.full_name(),
                      results->size());
      node_.output(i, (*results)[i]);
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw usage_error("{}: operator '{}': {}", op_.file, op_.full_name(), what);
  }
  /// Prefixes errors in a part of the definition with the file and the operator.
  template <typename Make>
  auto of_definition(const std::string& part, const Make& make) const {
    return with_context(fmt::format("{}: operator '{}', {}", op_.file, op_.full_name(), part),
                        make);
  }

  CustomOperator::Number read(const CustomOperator::Attribute& attribute) const {
    if (attribute.is_float) {
      std::optional<double> fallback;
      if (!attribute.is_required)
        fallback =
            std::visit([](auto value) { return static_cast<double>(value); }, attribute.value);
      return node_.attr_float(attribute.name, fallback);
    }
    std::optional<std::int64_t> fallback;
    if (!attribute.is_required) fallback = std::get<std::int64_t>(attribute.value);
    return node_.attr_int(attribute.name, fallback);
  }

  /// Parses a size of the definition, which may name inputs and outputs.
  Dim size(const std::string& text, std::span<const TensorType> outputs = {}) const {
    const SizeNamed named = [&](std::string_view name, int at) -> std::optional<Dim> {
      if (at == -2) {
        const auto found = attributes_.find(std::string(name));
        if (found == attributes_.end()) return std::nullopt;
        if (const auto* value = std::get_if<std::int64_t>(&found->second)) return Dim(*value);
        throw usage_error("attribute '{}' is no integer", name);
      }
      std::optional<Shape> shape;
      for (std::size_t i = 0; i < op_.inputs.size() && !shape; ++i)
        if (op_.inputs[i] == name) shape = node_.shape(inputs_[i]);
      for (std::size_t i = 0; i < outputs.size() && !shape; ++i)
        if (op_.outputs[i].name == name) shape = outputs[i].shape;
      if (!shape) return std::nullopt;
      if (at == -1) return ir::element_count(*shape);
      if (static_cast<std::size_t>(at) >= shape->size())
        throw usage_error("'{}' is {}, which has no dimension {}", name, ir::to_string(*shape), at);
      return (*shape)[static_cast<std::size_t>(at)];
    };
    return parse_size(text, named, node_.builder().ranges());
  }

  DType declared_type(const CustomOperator::Output& output) const {
    if (const auto type = dtype_from_string(output.type)) return *type;
    for (std::size_t i = 0; i < op_.inputs.size(); ++i)
      if (output.type.empty() || op_.inputs[i] == output.type) return node_.dtype(inputs_[i]);
    fail(fmt::format("output '{}' has no type", output.name));
  }
  /// Nullopt: the shape is that of the output's value.
  std::optional<Shape> declared_shape(const CustomOperator::Output& output) const {
    for (std::size_t i = 0; i < op_.inputs.size(); ++i)
      if (op_.inputs[i] == output.shape_of) return node_.shape(inputs_[i]);
    if (!output.shape.empty()) {
      Shape shape;
      for (const std::string& text : output.shape)
        shape.push_back(
            of_definition(fmt::format("shape of '{}'", output.name), [&] { return size(text); }));
      return shape;
    }
    if (!output.value.empty() || !op_.reference.empty()) return std::nullopt;
    return inputs_.empty() ? Shape() : node_.shape(inputs_[0]);
  }

  /// Computes the outputs with the definition's reference or expressions.
  std::optional<std::vector<ValueId>> meaning(std::span<const ValueId> inputs) {
    std::vector<ValueId> results;
    if (!op_.reference.empty()) {
      auto found = reference_(op_.reference, inputs);
      if (!found) return std::nullopt;
      if (found->size() != op_.outputs.size())
        fail(fmt::format("its reference '{}' has {} outputs, it has {}", op_.reference,
                         found->size(), op_.outputs.size()));
      results = std::move(*found);
    }
    for (std::size_t i = 0; i < op_.outputs.size(); ++i) {
      const CustomOperator::Output& output = op_.outputs[i];
      if (!output.value.empty())
        results.push_back(of_definition(fmt::format("value of '{}'", output.name), [&] {
          return build_expression(node_.builder(), output.value,
                                  [&](std::string_view name) { return term(name, inputs); });
        }));
      else if (op_.reference.empty())
        results.push_back(node_.add("NoReference", {inputs.begin(), inputs.end()},
                                    {{"operator", op_.full_name()},
                                     {"dtype", declared_type(output)},
                                     {"shape", declared_shape(output).value_or(Shape())}}));
      check(output, node_.type(results[i]));
    }
    return results;
  }
  std::optional<Term> term(std::string_view name, std::span<const ValueId> inputs) const {
    for (std::size_t i = 0; i < op_.inputs.size(); ++i)
      if (op_.inputs[i] == name) return inputs[i];
    const auto found = attributes_.find(std::string(name));
    if (found == attributes_.end()) return std::nullopt;
    return std::visit([](auto value) { return Term(static_cast<double>(value)); }, found->second);
  }
  void check(const CustomOperator::Output& output, const TensorType& made) const {
    const TensorType declared{declared_type(output), declared_shape(output).value_or(made.shape)};
    if (made == declared) return;
    fail(fmt::format("output '{}' is declared as {}, but what says what it computes gives {}{}",
                     output.name, declared, made,
                     made.dtype == declared.dtype || output.value.empty()
                         ? ""
                         : fmt::format("; convert it: {}(..)", to_string(declared.dtype))));
  }

  using Results = std::optional<std::vector<ValueId>>;

  /// Computes the outputs without the CUDA text: with the host function, or with the reference or
  /// expressions.
  Results without_kernels(std::span<const ValueId> inputs) {
    if (!op_.is_host) return meaning(inputs);
    const auto body = make_body(inputs, [&](std::span<const ValueId> in) { return meaning(in); });
    if (!body) return std::nullopt;
    refuse_sizes_from_data(*body, "its function");
    return node_.builder().add_multi(
        "HostOperator", {inputs.begin(), inputs.end()},
        {{"operator", op_.full_name()}, {"library", op_.host_library}, {"values", values_text()}},
        body);
  }
  Results with_kernels() {
    const auto body =
        make_body(inputs_, [&](std::span<const ValueId> in) { return without_kernels(in); });
    if (!body) return std::nullopt;
    refuse_sizes_from_data(*body, "its kernels");
    return node_.builder().add_multi("CustomKernel", inputs_, kernel_attributes(*body), body);
  }

  /// Builds `make`'s result for inputs of these types as a separate graph.
  template <typename Make>
  std::shared_ptr<const ir::Graph> make_body(std::span<const ValueId> inputs, const Make& make) {
    std::vector<ValueId> placeholders;
    for (const ValueId input : inputs)
      placeholders.push_back(node_.builder().placeholder(node_.type(input)));
    const Results results = make(placeholders);
    if (!results) return nullptr;
    ExtractedBody body = extract_body(node_.builder(), placeholders, *results, true);
    if (!body.captured.empty()) fail("what it computes depends on values around the node");
    return body.body;
  }
  void refuse_sizes_from_data(const ir::Graph& body, std::string_view what) const {
    for (const TensorType& type : body.types(body.outputs()))
      if (ir::is_from_data(type.shape, node_.builder().ranges()))
        node_.unsupported(fmt::format("{} would need sizes that follow from data", what));
  }

  ir::Attrs kernel_attributes(const ir::Graph& body) {
    const std::vector<TensorType> outputs = body.types(body.outputs());
    std::vector<Dim> dims;
    const auto number = [&](const std::string& text, const std::string& part) {
      const Dim dim = of_definition(part, [&] { return size(text, outputs); });
      const auto place = static_cast<std::size_t>(std::ranges::find(dims, dim) - dims.begin());
      if (place == dims.size()) dims.push_back(dim);
      return place;
    };
    std::vector<std::string> lines;
    for (const CustomOperator::Kernel& kernel : op_.kernels) {
      const std::string part = fmt::format("kernel '{}'", kernel.function);
      std::vector<std::size_t> grid;
      for (const std::string& text : kernel.grid) grid.push_back(number(text, part + ", grid"));
      std::string line =
          fmt::format("{} grid={} block={} cluster={}", kernel.function, fmt::join(grid, ","),
                      fmt::join(kernel.block, ","), kernel.cluster);
      if (!kernel.shared_bytes.empty())
        line += fmt::format(" shared={}", number(kernel.shared_bytes, part + ", shared_bytes"));
      std::vector<std::string> arguments;
      for (const std::string& text : kernel.arguments)
        arguments.push_back(argument(
            text, [&](const std::string& size) { return number(size, part + ", arguments"); }));
      lines.push_back(fmt::format("{} args={}", line, fmt::join(arguments, ",")));
    }
    std::vector<Dim> workspace;
    for (const CustomOperator::Workspace& each : op_.workspace)
      workspace.push_back(of_definition(fmt::format("workspace '{}'", each.name),
                                        [&] { return size(each.bytes, outputs); }));
    return {{"operator", op_.full_name()},
            {"source", op_.cubins.empty() ? source_text() : std::string()},
            {"cubins", cubins_text()},
            {"names", names()},
            {"launches", fmt::format("{}", fmt::join(lines, "\n"))},
            {"dims", dims},
            {"workspace", workspace},
            {"epilogues", epilogues()}};
  }
  /// Indices of the outputs that are written only by store(i, value).
  ir::Ints epilogues() const {
    ir::Ints all;
    for (std::size_t i = 0; i < op_.outputs.size(); ++i)
      if (std::ranges::any_of(op_.kernels, [&](const CustomOperator::Kernel& kernel) {
            return std::ranges::count(kernel.epilogue, op_.outputs[i].name) != 0;
          }))
        all.push_back(static_cast<std::int64_t>(i));
    return all;
  }
  /// A kernel argument: a buffer, "null", a size, or a 32-bit number: "i32(size)",
  /// "f32(attribute)". `number` returns a size's index in the list.
  template <typename Number>
  std::string argument(const std::string& text, const Number& number) const {
    if (const auto known = buffer(text)) return *known;
    if (text == "null") return fmt::format("dim{}", number("0"));
    const auto inside = [&] { return text.substr(4, text.size() - 5); };
    if (text.starts_with("i32(") && text.ends_with(")"))
      return fmt::format("int{}", number(inside()));
    if (!text.starts_with("f32(") || !text.ends_with(")"))
      return fmt::format("dim{}", number(text));
    const auto found = attributes_.find(inside());
    if (found == attributes_.end())
      fail(fmt::format("argument '{}': '{}' is no attribute", text, inside()));
    const auto value = std::visit([](auto v) { return static_cast<float>(v); }, found->second);
    // The float's bits as an integer.
    return fmt::format("float{}", number(fmt::format("{}", std::bit_cast<std::int32_t>(value))));
  }
  std::optional<std::string> buffer(const std::string& name) const {
    for (std::size_t i = 0; i < op_.inputs.size(); ++i)
      if (op_.inputs[i] == name) return fmt::format("in{}", i);
    for (std::size_t i = 0; i < op_.outputs.size(); ++i)
      if (op_.outputs[i].name == name) return fmt::format("out{}", i);
    for (std::size_t i = 0; i < op_.workspace.size(); ++i)
      if (op_.workspace[i].name == name) return fmt::format("work{}", i);
    return std::nullopt;
  }
  std::string names() const {
    std::vector<std::string> all = op_.inputs;
    for (const auto& output : op_.outputs) all.push_back(output.name);
    return fmt::format("{}", fmt::join(all, ","));
  }
  std::string source_text() const {
    return fmt::format("{}#line 1 \"{}\"\n{}", attributes_text(), op_.domain + "::" + op_.name,
                       op_.source);
  }
  /// One line per architecture: "sm_90 7f454c46..".
  std::string cubins_text() const {
    std::string text;
    for (const auto& [architecture, bytes] : op_.cubins) {
      text += architecture + ' ';
      for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
      text += '\n';
    }
    return text;
  }
  /// One line per attribute: "int axis 3", "float limit 2.5".
  std::string values_text() const {
    std::string text;
    for (const auto& attribute : op_.attributes) {
      const CustomOperator::Number& value = attributes_.at(attribute.name);
      if (const auto* integer = std::get_if<std::int64_t>(&value))
        text += fmt::format("int {} {}\n", attribute.name, *integer);
      else
        text += fmt::format("float {} {:.17g}\n", attribute.name, std::get<double>(value));
    }
    return text;
  }
  /// Declares `attributes::limit` for the CUDA text.
  std::string attributes_text() const {
    if (attributes_.empty()) return "";
    std::string text = "namespace attributes {\n";
    for (const auto& [name, value] : attributes_) {
      if (const auto* integer = std::get_if<std::int64_t>(&value))
        text += fmt::format("constexpr long long {} = {};\n", name, *integer);
      else
        text += fmt::format("constexpr float {} = static_cast<float>({:.17g});\n", name,
                            std::get<double>(value));
    }
    return text + "}\n";
  }

  NodeContext& node_;
  const CustomOperator& op_;
  const ImportReference& reference_;
  std::vector<ValueId> inputs_;
  std::map<std::string, CustomOperator::Number> attributes_;
};

}  // namespace

void import_custom(NodeContext& node, const CustomOperator& op, const ImportReference& reference) {
  CustomImport(node, op, reference).run();
}

}  // namespace sinter::frontend
