// SPDX-License-Identifier: Apache-2.0
#include "fusion/recurrences/operands.h"

#include <algorithm>

#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

enum Role : std::size_t { kBatch, kToken, kHead, kChannel, kSelected };

/// What dimension `d` of an element is; nothing if it is none of them.
std::optional<Role> role_of(const Graph& graph, const ElementAt& element, std::size_t d,
                            const OperandShape& shape) {
  const Dim& at = element.index[d];
  if (at.is_constant()) return kSelected;
  if (at == shape.index.batch) return kBatch;
  if (at == shape.index.head) return kHead;
  if (at == shape.channel) return kChannel;
  const Dim& own = graph.type(element.value).shape[d];
  if (!own.is_constant() || !shape.heads.is_constant() || own.value() < 1 ||
      shape.heads.value() % own.value() != 0)
    return std::nullopt;
  const Dim group(shape.heads.value() / own.value());
  if (at == ir::floor_div(shape.index.head, group)) return kHead;
  return std::nullopt;
}

/// A factor of one or more consecutive tokens.
struct Part {
  ElementAt element;                // of the first token
  std::optional<std::size_t> axis;  // that tokens follow, from its index on
};

/// Factor `i` of the tokens, if it lies where that of the first does, or follows one dimension.
std::optional<Part> part_of(std::span<const StepOperand> tokens, std::size_t i) {
  Part result{tokens[0].factors[i], std::nullopt};
  const auto& first = result.element.index;
  for (std::size_t t = 1; t < tokens.size(); ++t) {
    if (tokens[t].factors.size() != tokens[0].factors.size() ||
        tokens[t].factor != tokens[0].factor)
      return std::nullopt;
    const ElementAt& now = tokens[t].factors[i];
    if (now.value != result.element.value) return std::nullopt;
    for (std::size_t d = 0; d < first.size(); ++d) {
      if (t == 1 && now.index[d] != first[d] && !result.axis) result.axis = d;
      const Dim wanted = result.axis == d ? first[d] + Dim(static_cast<std::int64_t>(t)) : first[d];
      if (now.index[d] != wanted || (result.axis == d && !first[d].is_constant()))
        return std::nullopt;
    }
  }
  return result;
}

/// The part as [batch or 1, tokens or 1, heads or 1, channels or 1].
ValueId emit_part(GraphBuilder& b, const Graph& graph, const Part& part, const Dim& count,
                  const OperandShape& shape, ValueId value, bool is_lifted) {
  std::vector<Role> roles;
  const std::size_t first = is_lifted ? 1 : 0;
  if (is_lifted) roles.push_back(kToken);
  for (std::size_t d = 0; d < part.element.index.size(); ++d)
    roles.push_back(part.axis == d ? kToken : *role_of(graph, part.element, d, shape));
  for (std::size_t d = roles.size(); d-- > 0;) {
    const Dim size = b.type(value).shape[d];
    if (roles[d] == kSelected) {
      const std::int64_t at = part.element.index[d - first].value();
      const ValueId place = b.constant(Tensor::from_ints(DType::kInt64, {}, {{at}}));
      value = b.add("Gather", {value, place}, {{"axis", static_cast<std::int64_t>(d)}});
      roles.erase(roles.begin() + static_cast<std::ptrdiff_t>(d));
    } else if (roles[d] == kToken && size != count) {
      Shape whole = b.type(value).shape;
      std::vector<Dim> starts(whole.size(), Dim(0));
      starts[d] = part.element.index[d];
      whole[d] = count;
      value = b.add("Slice", {value},
                    {{"starts", starts}, {"steps", Ints(whole.size(), 1)}, {"shape", whole}});
    }
  }
  Ints perm;
  Shape wide(4, Dim(1));
  for (const Role role : {kBatch, kToken, kHead, kChannel}) {
    const auto found = std::ranges::find(roles, role);
    if (found == roles.end()) continue;
    perm.push_back(found - roles.begin());
    wide[role] = b.type(value).shape[static_cast<std::size_t>(perm.back())];
  }
  return reshaped(b, transposed(b, value, perm), wide);
}

}  // namespace

ValueId of_type(GraphBuilder& b, ValueId value, DType type) {
  return b.type(value).dtype == type ? value : b.add("Cast", {value}, {{"to", type}});
}
ValueId transposed(GraphBuilder& b, ValueId value, const Ints& perm) {
  return std::ranges::is_sorted(perm) ? value : b.add("Transpose", {value}, {{"perm", perm}});
}
ValueId reshaped(GraphBuilder& b, ValueId value, const Shape& shape) {
  return b.type(value).shape == shape ? value : b.add("Reshape", {value}, {{"shape", shape}});
}

bool is_same(const StepOperand& a, const StepOperand& b) {
  if (a.factor != b.factor || a.factors.size() != b.factors.size()) return false;
  return std::ranges::all_of(a.factors, [&](const ElementAt& element) {
    return std::ranges::any_of(b.factors, [&](const ElementAt& other) {
      return other.value == element.value && other.index == element.index;
    });
  });
}

bool fits(const Graph& graph, const StepOperand& operand, const OperandShape& shape) {
  for (const ElementAt& element : operand.factors) {
    std::vector<bool> used(kSelected, false);
    if (!is_float(graph.type(element.value).dtype)) return false;
    for (std::size_t d = 0; d < element.index.size(); ++d) {
      const auto role = role_of(graph, element, d, shape);
      if (!role || (*role != kSelected && used[*role])) return false;
      if (*role != kSelected) used[*role] = true;
    }
  }
  return true;
}

ValueId for_each_head(GraphBuilder& b, ValueId value, const Dim& heads) {
  Shape shape = b.type(value).shape;
  if (shape[2] == heads) return value;
  if (shape[2] != Dim(1)) {
    const Dim group(heads.value() / shape[2].value());
    value = b.add("Reshape", {value},
                  {{"shape", Shape{shape[0], shape[1], shape[2], Dim(1), shape[3]}}});
    value =
        b.add("Expand", {value}, {{"shape", Shape{shape[0], shape[1], shape[2], group, shape[3]}}});
    shape[2] = heads;
    return b.add("Reshape", {value}, {{"shape", shape}});
  }
  shape[2] = heads;
  return b.add("Expand", {value}, {{"shape", shape}});
}

ValueId emit_tokens(GraphBuilder& b, const Graph& graph, std::span<const StepOperand> tokens,
                    const OperandShape& shape, DType type, const TokenSource& source) {
  const Dim count =
      tokens.size() == 1 ? source.count : Dim(static_cast<std::int64_t>(tokens.size()));
  std::vector<Part> parts;
  for (std::size_t i = 0; i < tokens[0].factors.size(); ++i) {
    auto part = part_of(tokens, i);
    if (!part) {
      // One after the other.
      std::vector<ValueId> all;
      for (const StepOperand& token : tokens)
        all.push_back(
            for_each_head(b, emit_tokens(b, graph, {&token, 1}, shape, type, source), shape.heads));
      return b.add("Concat", all, {{"axis", std::int64_t{1}}});
    }
    parts.push_back(std::move(*part));
  }
  ValueId result;
  std::vector<ValueId> values;
  for (const Part& part : parts)
    values.push_back(
        of_type(b,
                emit_part(b, graph, part, count, shape, source.read(part.element.value),
                          source.is_lifted(part.element.value)),
                type));
  // Heads that share a factor each get it where another factor has more heads.
  std::int64_t heads = 1;
  for (const ValueId value : values) heads = std::max(heads, b.type(value).shape[2].value());
  for (ValueId value : values) {
    if (b.type(value).shape[2] != Dim(1)) value = for_each_head(b, value, Dim(heads));
    result = result.valid() ? b.add("Mul", {result, value}) : value;
  }
  if (!result.valid())
    result = b.scalar(type, tokens[0].factor);
  else if (tokens[0].factor != 1)
    result = b.add("Mul", {result, b.scalar(type, tokens[0].factor)});
  const Shape all{shape.batch, count, Dim(heads), shape.channels};
  return b.type(result).shape == all ? result : b.add("Expand", {result}, {{"shape", all}});
}

}  // namespace sinter::fusion
