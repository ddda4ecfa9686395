#include "codegen/lowering/horizontal_lowering.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/lowering/describe.h"
#include "codegen/lowering/loop_lowering.h"
#include "codegen/work.h"
#include "ir/text/text.h"
#include "runtime/plan/loop_values.h"

namespace sinter::codegen {
namespace {

using ir::Dim;
using ir::Graph;
using ir::Node;
using ir::ValueId;

/// Where a value of the body is in memory.
struct Place {
  std::uint32_t buffer = 0;
  std::int64_t offset = 0;  // elements
};

/// A region's body with its sizes as symbols: equal sizes are one.
struct Shape {
  std::shared_ptr<const Graph> body;
  ir::Bindings sizes;
};

std::int64_t elements(const ir::TensorType& type) {
  return ir::element_count(type.shape).evaluate({});
}

/// Nothing if sizes also stand in attributes, so that only those that the body has are possible.
std::optional<Graph> with_symbols(const Graph& body, ir::Bindings& sizes) {
  std::map<std::int64_t, std::string> names;
  ir::GraphBuilder builder(body.name());
  std::vector<ValueId> map(body.values().size());
  const auto at = [](ValueId value) { return static_cast<std::size_t>(value.index); };
  for (const ValueId input : body.inputs()) {
    ir::TensorType type = body.type(input);
    for (Dim& dim : type.shape) {
      if (dim == Dim(1)) continue;
      const auto [name, added] = names.emplace(dim.value(), fmt::format("size{}", names.size()));
      if (added) sizes.emplace(name->second, dim.value());
      dim = Dim::symbol(name->second);
    }
    map[at(input)] = builder.input(body.value(input).name, type);
  }
  try {
    for (const Node& node : body.nodes()) {
      std::vector<ValueId> inputs;
      for (const ValueId input : node.inputs) {
        if (!map[at(input)].valid()) map[at(input)] = builder.constant(body.value(input).constant);
        inputs.push_back(map[at(input)]);
      }
      const auto results = builder.add_multi(node.op->name, inputs, node.attrs, node.body);
      for (std::size_t k = 0; k < results.size(); ++k) {
        map[at(node.outputs[k])] = results[k];
        const ir::Shape& shape = builder.type(results[k]).shape;
        const ir::Shape& known = body.type(node.outputs[k]).shape;
        for (std::size_t d = 0; d < shape.size(); ++d)
          if (shape.size() != known.size() || shape[d].evaluate(sizes) != known[d].value())
            return std::nullopt;
      }
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  for (std::size_t k = 0; k < body.outputs().size(); ++k)
    builder.output(body.output_names()[k], map[at(body.outputs()[k])]);
  return builder.finish();
}

class Lowering {
 public:
  Lowering(const Graph& body, std::span<const std::uint32_t> inputs,
           std::span<const std::uint32_t> outputs)
      : body_(body), places_(body.values().size()) {
    for (std::size_t k = 0; k < inputs.size(); ++k) place(body.inputs()[k]) = Place{inputs[k], 0};
    for (std::size_t k = 0; k < outputs.size(); ++k)
      place(body.outputs()[k]) = Place{outputs[k], 0};
  }

  HorizontalProgram run() {
    for (std::size_t n = body_.nodes().size(); n-- > 0;) place_operands(body_.nodes()[n]);
    // The largest of each size bounds index arithmetic, so all are known before the first program.
    std::vector<Shape> shapes;
    std::vector<const Node*> members;
    ir::Ranges ranges;
    for (const Node& node : body_.nodes()) {
      if (node.op->name == "Reshape" || concatenates(node)) continue;
      if (node.op->kind != ir::OpKind::kFused)
        throw Error(ErrorCode::kUnsupported,
                    fmt::format("{} is no part of a horizontal region", describe(node)));
      members.push_back(&node);
      shapes.push_back(shape_of(node));
      for (const auto& [name, value] : shapes.back().sizes) {
        ir::Range& range = ranges[name];
        range.min = 1;
        range.max = std::max(range.max == INT64_MAX ? 0 : range.max, value);
      }
    }
    program_.exprs = std::make_shared<ExprTable>(std::move(ranges));
    for (std::size_t m = 0; m < members.size(); ++m) add_part(*members[m], std::move(shapes[m]));
    return std::move(program_);
  }

 private:
  std::optional<Place>& place(ValueId value) {
    return places_[static_cast<std::size_t>(value.index)];
  }

  static bool concatenates(const Node& node) {
    return node.op->kind == ir::OpKind::kFused &&
           std::all_of(node.body->nodes().begin(), node.body->nodes().end(),
                       [](const Node& part) { return part.op->name == "Concat"; });
  }

  /// What a reshape or a concatenation gives lies where its result does.
  void place_operands(const Node& node) {
    if (node.op->name == "Reshape") {
      if (!place(node.inputs[0])) place(node.inputs[0]) = place(node.outputs[0]);
      return;
    }
    if (!concatenates(node)) return;
    const Graph& body = *node.body;
    std::map<ValueId, Place> inner = {{body.outputs()[0], *place(node.outputs[0])}};
    for (std::size_t n = body.nodes().size(); n-- > 0;) {
      const Node& concat = body.nodes()[n];
      Place next = inner.at(concat.outputs[0]);
      for (const ValueId input : concat.inputs) {
        inner[input] = next;
        next.offset += elements(body.type(input));
      }
    }
    for (std::size_t k = 0; k < node.inputs.size(); ++k)
      place(node.inputs[k]) = inner.at(body.inputs()[k]);
  }

  /// The body over symbols, with where its results begin in their buffers; over its own sizes where
  /// it cannot be.
  static Shape shape_of(const Node& node) {
    Shape shape;
    if (auto symbolic = with_symbols(*node.body, shape.sizes))
      shape.body = std::make_shared<const Graph>(std::move(*symbolic));
    else
      shape = {node.body, {}};
    for (std::size_t k = 0; k < node.outputs.size(); ++k) shape.sizes.emplace(offset_name(k), 0);
    return shape;
  }

  static std::string offset_name(std::size_t output) { return fmt::format("at{}", output); }

  void add_part(const Node& node, Shape shape) {
    HorizontalPart part;
    part.sizes = std::move(shape.sizes);
    std::vector<std::uint32_t> inputs, outputs;  // numbers in `part.buffers`
    const auto number = [&](ValueId value, std::vector<std::uint32_t>& list) {
      if (!place(value))
        throw Error(ErrorCode::kInternal, "a value of a horizontal region has no place in memory");
      list.push_back(static_cast<std::uint32_t>(part.buffers.size()));
      part.buffers.push_back(place(value)->buffer);
    };
    for (const ValueId input : node.inputs) number(input, inputs);
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      number(node.outputs[k], outputs);
      part.sizes[offset_name(k)] = place(node.outputs[k])->offset;
    }
    const auto [kind, added] = kinds_.emplace(ir::print(*shape.body), program_.kinds.size());
    if (added) add_kind(*shape.body, inputs, outputs);
    part.kind = kind->second;
    // The program may read less than the region is given.
    std::vector<std::uint32_t> used;
    for (const std::uint32_t b : program_.kinds[part.kind].program.buffers)
      used.push_back(part.buffers[b]);
    part.buffers = std::move(used);
    program_.parts.push_back(std::move(part));
  }

  void add_kind(const Graph& body, const std::vector<std::uint32_t>& inputs,
                const std::vector<std::uint32_t>& outputs) {
    ExprTable& exprs = *program_.exprs;
    HorizontalKind kind;
    kind.program = lower_region(body, inputs, outputs, exprs);
    std::map<std::uint32_t, DType> types;
    for (std::size_t k = 0; k < inputs.size(); ++k)
      types[inputs[k]] = body.type(body.inputs()[k]).dtype;
    for (std::size_t k = 0; k < outputs.size(); ++k)
      types[outputs[k]] = body.type(body.outputs()[k]).dtype;
    for (const auto& instr : kind.program.instrs) {
      if (!plan::is_store(instr->kind)) continue;
      plan::fb::AccessT& access = *kind.program.accesses[instr->access];
      const auto output =
          std::find(outputs.begin(), outputs.end(), kind.program.buffers[access.buffer]) -
          outputs.begin();
      access.offset = exprs.intern(exprs.dim(access.offset) +
                                   Dim::symbol(offset_name(static_cast<std::size_t>(output))));
    }
    for (const std::uint32_t buffer : kind.program.buffers) kind.types.push_back(types.at(buffer));
    program_.kinds.push_back(std::move(kind));
  }

  const Graph& body_;
  std::vector<std::optional<Place>> places_;
  std::map<std::string, std::size_t> kinds_;  // by the text of their bodies
  HorizontalProgram program_;
};

}  // namespace

std::int64_t HorizontalProgram::flops() const {
  std::vector<Dim> of_kind;
  for (const HorizontalKind& kind : kinds)
    of_kind.push_back(
        work_of(kind.program, *exprs, [](std::uint32_t) { return BufferSize(); }).flops);
  std::int64_t all = 0;
  for (const HorizontalPart& part : parts) all += of_kind[part.kind].evaluate(part.sizes);
  return all;
}

HorizontalProgram lower_horizontal(const Graph& body, std::span<const std::uint32_t> inputs,
                                   std::span<const std::uint32_t> outputs) {
  return Lowering(body, inputs, outputs).run();
}

}  // namespace sinter::codegen
