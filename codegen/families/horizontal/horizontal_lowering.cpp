// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/horizontal/horizontal_lowering.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/plan/cost.h"
#include "codegen/program/describe.h"
#include "codegen/program/loop_lowering.h"
#include "ir/text/text.h"
#include "runtime/plan/loop_values.h"

namespace sinter::codegen {
namespace {

using ir::Dim;
using ir::Graph;
using ir::Node;
using ir::ValueId;
using Sizes = std::map<std::string, Dim, std::less<>>;

// Limit on programs for the rows of one body: one that knows the row length keeps rows in
// registers, but each is more code to fetch.
constexpr std::size_t kMostLengths = 4;

/// Buffer and offset of a value of the body.
struct Slot {
  std::uint32_t buffer = 0;
  Dim offset = 0;  // elements
};

/// A region's body with sizes as symbols, equal sizes sharing one. If attributes contain sizes, the
/// body is unchanged and has no symbols.
struct GroupShape {
  std::shared_ptr<const Graph> body;
  Sizes sizes;
};

/// Model symbols never have such names.
std::string size_name(std::size_t number) { return fmt::format("size:{}", number); }
std::string offset_name(std::size_t output) { return fmt::format("at:{}", output); }

/// Replaces each size by a symbol, except those in `known`. Nothing if attributes contain sizes
/// too, so that only the body's own are possible.
std::optional<GroupShape> with_symbols(const Graph& body, const std::set<std::string>& known) {
  GroupShape shape;
  std::map<Dim, std::string> names;
  ir::GraphBuilder builder(body.name());
  if (!known.empty())
    for (const auto& [symbol, range] : body.ranges()) builder.range(symbol, range);
  std::vector<ValueId> map(body.values().size());
  const auto at = [](ValueId value) { return static_cast<std::size_t>(value.index); };
  for (const ValueId input : body.inputs()) {
    ir::TensorType type = body.type(input);
    for (Dim& dim : type.shape) {
      if (dim == Dim(1)) continue;
      const auto [name, added] = names.emplace(dim, size_name(names.size()));
      if (added) shape.sizes.emplace(name->second, dim);
      if (!known.contains(name->second)) dim = Dim::symbol(name->second);
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
        const ir::Shape& found = builder.type(results[k]).shape;
        const ir::Shape& expected = body.type(node.outputs[k]).shape;
        if (found.size() != expected.size()) return std::nullopt;
        for (std::size_t d = 0; d < found.size(); ++d)
          if (found[d].substitute(shape.sizes) != expected[d]) return std::nullopt;
      }
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  for (std::size_t k = 0; k < body.outputs().size(); ++k)
    builder.output(body.output_names()[k], map[at(body.outputs()[k])]);
  shape.body = std::make_shared<const Graph>(builder.finish());
  return shape;
}

/// Symbols of the row lengths.
std::set<std::string> row_symbols(const Graph& body) {
  std::set<std::string> symbols;
  for (const Node& node : body.nodes()) {
    if (node.op->kind != ir::OpKind::kReduce) continue;
    const ir::Shape& shape = body.type(node.inputs[0]).shape;
    for (const std::int64_t axis : node.attrs.get_ints("axes"))
      for (const std::string& name : shape[static_cast<std::size_t>(axis)].symbols())
        symbols.insert(name);
  }
  return symbols;
}

/// A region of the horizontal region, before it becomes a part.
struct Member {
  const Node* node = nullptr;
  GroupShape shape;
  std::string text;                     // text of the body
  std::vector<Dim> rows;                // values of row_symbols
  Sizes offsets;                        // of its results
  std::set<std::string> fixed_offsets;  // equal in all members of its kind
};

class Lowering {
 public:
  Lowering(const Graph& body, std::span<const std::uint32_t> inputs,
           std::span<const std::uint32_t> outputs)
      : body_(body), ranges_(body.ranges()), slots_(body.values().size()) {
    for (std::size_t k = 0; k < inputs.size(); ++k) slot_of(body.inputs()[k]) = Slot{inputs[k], 0};
    for (std::size_t k = 0; k < outputs.size(); ++k)
      slot_of(body.outputs()[k]) = Slot{outputs[k], 0};
  }

  HorizontalProgram run() {
    for (std::size_t n = body_.nodes().size(); n-- > 0;) place_operands(body_.nodes()[n]);
    for (const Node& node : body_.nodes())
      if (node.op->name != "Reshape" && !concatenates_results(node))
        members_.push_back(member_of(node));
    // A body may have symbols that its operands lack.
    for (const Member& member : members_)
      ranges_.insert(member.node->body->ranges().begin(), member.node->body->ranges().end());
    std::vector<std::vector<std::size_t>> kinds = group();
    bool regroup = false;
    for (const auto& kind : kinds) {
      fix_sizes(kind);
      if (lowers(kind)) continue;
      for (const std::size_t m : kind) keep_sizes(members_[m]);
      regroup = true;
    }
    if (regroup) {
      kinds = group();
      for (const auto& kind : kinds) fix_sizes(kind);
    }
    // Index arithmetic needs the maximum of each size, before the first program.
    ir::Ranges ranges = ranges_;
    for (const auto& kind : kinds) add_ranges(kind, ranges);
    program_.exprs = std::make_shared<ExprTable>(std::move(ranges));
    program_.parts.resize(members_.size());
    for (const auto& kind : kinds) {
      for (const std::size_t m : kind) add_part(m, m == kind.front());
    }
    return std::move(program_);
  }

 private:
  std::optional<Slot>& slot_of(ValueId value) {
    return slots_[static_cast<std::size_t>(value.index)];
  }

  /// Whether the regions' stores do the concatenation. (A region that concatenates inputs is a
  /// member.)
  bool concatenates_results(const Node& node) const {
    return node.op->kind == ir::OpKind::kFused &&
           std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId input) { return body_.producer(input) != nullptr; }) &&
           std::all_of(node.body->nodes().begin(), node.body->nodes().end(),
                       [](const Node& part) { return part.op->name == "Concat"; });
  }

  /// The operands of a reshape or concatenation are placed in its result's buffer.
  void place_operands(const Node& node) {
    if (node.op->name == "Reshape") {
      if (!slot_of(node.inputs[0])) slot_of(node.inputs[0]) = slot_of(node.outputs[0]);
      return;
    }
    if (!concatenates_results(node)) return;
    const Graph& body = *node.body;
    std::map<ValueId, Slot> inner = {{body.outputs()[0], *slot_of(node.outputs[0])}};
    for (std::size_t n = body.nodes().size(); n-- > 0;) {
      const Node& concat = body.nodes()[n];
      Slot next = inner.at(concat.outputs[0]);
      for (const ValueId input : concat.inputs) {
        inner[input] = next;
        next.offset = next.offset + ir::element_count(body.type(input).shape);
      }
    }
    for (std::size_t k = 0; k < node.inputs.size(); ++k)
      slot_of(node.inputs[k]) = inner.at(body.inputs()[k]);
  }

  Member member_of(const Node& node) {
    const std::string* family =
        node.op->kind == ir::OpKind::kFused ? &node.attrs.get_string("kind") : nullptr;
    if (!family || (*family != "pointwise" && *family != "reduction" && *family != "scatter"))
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("{} is no part of a horizontal region", describe(node)));
    Member member;
    member.node = &node;
    member.shape = with_symbols(*node.body, {}).value_or(GroupShape{node.body, {}});
    member.text = ir::print(*member.shape.body);
    for (const std::string& symbol : row_symbols(*member.shape.body))
      if (const auto size = member.shape.sizes.find(symbol); size != member.shape.sizes.end())
        member.rows.push_back(size->second);
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      if (!slot_of(node.outputs[k]))
        throw Error(ErrorCode::kInternal, "a value of a horizontal region has no place in memory");
      member.offsets.emplace(offset_name(k), slot_of(node.outputs[k])->offset);
    }
    return member;
  }

  /// The members of each kind, in order of first appearance.
  std::vector<std::vector<std::size_t>> group() const {
    std::map<std::string, std::set<std::vector<Dim>>> lengths;
    for (const Member& member : members_) lengths[member.text].insert(member.rows);
    std::map<std::pair<std::string, std::vector<Dim>>, std::size_t> numbers;
    std::vector<std::vector<std::size_t>> kinds;
    for (std::size_t m = 0; m < members_.size(); ++m) {
      const Member& member = members_[m];
      const bool apart = lengths.at(member.text).size() <= kMostLengths;
      const auto [kind, added] = numbers.emplace(
          std::pair(member.text, apart ? member.rows : std::vector<Dim>()), kinds.size());
      if (added) kinds.emplace_back();
      kinds[kind->second].push_back(m);
    }
    return kinds;
  }

  /// Some regions cannot be lowered with symbolic sizes: that a reduction is read in its own row
  /// may depend on one size being the product of others.
  bool lowers(const std::vector<std::size_t>& kind) const {
    const Member& first = members_[kind.front()];
    if (first.shape.sizes.empty()) return true;
    ir::Ranges ranges = ranges_;
    add_ranges(kind, ranges);
    ExprTable exprs(std::move(ranges));
    std::vector<std::uint32_t> inputs(first.node->inputs.size()), outputs;
    std::iota(inputs.begin(), inputs.end(), 0u);
    for (std::size_t k = 0; k < first.node->outputs.size(); ++k)
      outputs.push_back(static_cast<std::uint32_t>(inputs.size() + k));
    try {
      lower_region(*first.shape.body, inputs, outputs, exprs);
    } catch (const Error&) {
      return false;
    }
    return true;
  }

  static void keep_sizes(Member& member) {
    member.shape = {member.node->body, {}};
    member.text = ir::print(*member.shape.body);
    member.rows.clear();
  }

  /// Sizes and offsets equal in all of a kind's members become constants of its program.
  void fix_sizes(const std::vector<std::size_t>& kind) {
    Member& first = members_[kind.front()];
    std::set<std::string> equal;
    const auto in_all = [&](const Dim& size, const auto& size_of) {
      return std::all_of(kind.begin(), kind.end(),
                         [&](std::size_t m) { return size_of(members_[m]) == size; });
    };
    for (const auto& [name, size] : first.shape.sizes)
      if (in_all(size,
                 [&name = name](const Member& member) { return member.shape.sizes.at(name); }))
        equal.insert(name);
    if (!equal.empty())
      if (auto fixed = with_symbols(*first.node->body, equal)) {
        first.shape.body = fixed->body;
        for (const std::size_t m : kind)
          for (const std::string& name : equal) members_[m].shape.sizes.erase(name);
      }
    std::set<std::string> fixed_offsets;
    for (const auto& [name, offset] : first.offsets)
      if (in_all(offset, [&name = name](const Member& member) { return member.offsets.at(name); }))
        fixed_offsets.insert(name);
    for (const std::size_t m : kind) members_[m].fixed_offsets = fixed_offsets;
  }

  /// Ranges of the remaining symbols.
  void add_ranges(const std::vector<std::size_t>& kind, ir::Ranges& ranges) const {
    for (const std::size_t m : kind) {
      const Member& member = members_[m];
      for (const auto& [name, size] : member.shape.sizes) add_range(name, size, 1, ranges);
      for (const auto& [name, offset] : member.offsets)
        if (!member.fixed_offsets.contains(name)) add_range(name, offset, 0, ranges);
    }
  }

  void add_range(const std::string& name, const Dim& size, std::int64_t least,
                 ir::Ranges& ranges) const {
    const auto low = ir::lower_bound(size, ranges_);
    const auto high = ir::upper_bound(size, ranges_);
    ir::Range range;
    range.min = low.value_or(least);
    range.max = high.value_or(INT64_MAX);
    const auto [known, added] = ranges.emplace(name, range);
    if (added) return;
    known->second.min = std::min(known->second.min, range.min);
    known->second.max = std::max(known->second.max, range.max);
  }

  void add_part(std::size_t m, bool is_first) {
    const Member& member = members_[m];
    const Node& node = *member.node;
    HorizontalPart part;
    part.sizes = member.shape.sizes;
    std::vector<std::uint32_t> inputs, outputs;  // indices into `part.buffers`
    const auto number = [&](ValueId value, std::vector<std::uint32_t>& list) {
      if (!slot_of(value))
        throw Error(ErrorCode::kInternal, "a value of a horizontal region has no place in memory");
      list.push_back(static_cast<std::uint32_t>(part.buffers.size()));
      part.buffers.push_back(slot_of(value)->buffer);
    };
    for (const ValueId input : node.inputs) number(input, inputs);
    for (const ValueId output : node.outputs) number(output, outputs);
    for (const auto& [name, offset] : member.offsets) part.sizes.emplace(name, offset);
    if (is_first) add_kind(m, inputs, outputs);
    part.kind = program_.kinds.size() - 1;
    // The program may read fewer buffers than the region has.
    std::vector<std::uint32_t> used;
    for (const std::uint32_t b : program_.kinds[part.kind].program.buffers)
      used.push_back(part.buffers[b]);
    part.buffers = std::move(used);
    program_.parts[m] = std::move(part);
  }

  void add_kind(std::size_t m, const std::vector<std::uint32_t>& inputs,
                const std::vector<std::uint32_t>& outputs) {
    const Member& member = members_[m];
    const Graph& body = *member.shape.body;
    ExprTable& exprs = *program_.exprs;
    HorizontalKind kind;
    kind.program = lower_region(body, inputs, outputs, exprs);
    std::map<std::uint32_t, DType> types;
    for (std::size_t k = 0; k < inputs.size(); ++k)
      types[inputs[k]] = body.type(body.inputs()[k]).dtype;
    for (std::size_t k = 0; k < outputs.size(); ++k)
      types[outputs[k]] = body.type(body.outputs()[k]).dtype;
    std::set<std::uint32_t> stores;
    for (const auto& instr : kind.program.instrs) {
      if (!plan::is_store(instr->kind) || !stores.insert(instr->access).second) continue;
      plan::fb::AccessT& access = *kind.program.accesses[instr->access];
      const auto output =
          std::find(outputs.begin(), outputs.end(), kind.program.buffers[access.buffer]) -
          outputs.begin();
      const std::string name = offset_name(static_cast<std::size_t>(output));
      const Dim& known = member.offsets.at(name);
      access.offset =
          exprs.intern(exprs.dim(access.offset) +
                       (member.fixed_offsets.contains(name) ? known : Dim::symbol(name)));
    }
    for (const std::uint32_t buffer : kind.program.buffers) kind.types.push_back(types.at(buffer));
    program_.kinds.push_back(std::move(kind));
  }

  const Graph& body_;
  ir::Ranges ranges_;  // of the plan's symbols
  std::vector<std::optional<Slot>> slots_;
  std::vector<Member> members_;
  HorizontalProgram program_;
};

}  // namespace

Dim HorizontalProgram::flops() const {
  std::vector<Dim> of_kind;
  for (const HorizontalKind& kind : kinds)
    of_kind.push_back(
        cost_of(kind.program, *exprs, [](std::uint32_t) { return BufferSize(); }).flops);
  Dim all = 0;
  for (const HorizontalPart& part : parts) all = all + of_kind[part.kind].substitute(part.sizes);
  return all;
}

std::string print_horizontal(const HorizontalProgram& program) {
  std::string text = "horizontal\n";
  for (const HorizontalKind& kind : program.kinds) {
    text += print_loop_program(kind.program, *program.exprs);
    for (const DType type : kind.types) text += fmt::format("{} ", to_string(type));
  }
  std::map<std::uint32_t, std::size_t> numbers;
  for (const HorizontalPart& part : program.parts) {
    text += fmt::format("\n{}:", part.kind);
    for (const std::uint32_t buffer : part.buffers)
      text += fmt::format(" {}", numbers.emplace(buffer, numbers.size()).first->second);
    for (const auto& [name, size] : part.sizes)
      text += fmt::format(" {}={}", name, size.to_string());
  }
  return text;
}

HorizontalProgram lower_horizontal(const Graph& body, std::span<const std::uint32_t> inputs,
                                   std::span<const std::uint32_t> outputs) {
  return Lowering(body, inputs, outputs).run();
}

}  // namespace sinter::codegen
