// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/loops/body/value_text.h"

#include <fmt/format.h>

#include "codegen/emit/print_instr.h"
#include "codegen/families/loops/held_values.h"
#include "ir/scalar_math.h"

namespace sinter::codegen {

using plan::fb::InstrKind;

std::string ValueText::vector_type(std::size_t i) const {
  return fmt::format("Vec<{}, {}>", memory_type(i), s_.vector());
}

std::string ValueText::combine(std::size_t i) const {
  return combine_name(static_cast<Combine>(analysis_.instr(i).op));
}

std::string ValueText::identity(std::size_t i) const {
  return fmt::format("{}::identity<{}>()", combine(i), type(i));
}

std::string ValueText::vectors_size() const {
  return s_.loop->unrolled() ? fmt::format("[{}]", s_.schedule().unroll) : "";
}

std::string ValueText::elements_size() const {
  return s_.vector() > 1 ? fmt::format("[{}]", s_.vector()) : "";
}

std::string ValueText::raw_subscript(std::size_t i) const {
  return std::string(s_.is_passes_ahead(i) ? "[pass]" : "") +
         (s_.loop->unrolled() || s_.grouped[i] ? "[k]" : "") +
         std::string(s_.staged[i] ? "[threadIdx.x]" : "");
}

std::string ValueText::partial_sum(std::size_t i) const {
  if (const auto* window = std::get_if<WindowParameters>(&s_.schedule().kind))
    return fmt::format("a{}{}{}", i, window->tile > 1 ? "[t]" : "", s_.vector() > 1 ? "[j]" : "");
  if (s_.schedule().is<StencilParameters>())
    return fmt::format("a{}[t][{}]", i, s_.vector() > 1 ? "j" : "u");
  const bool is_tail = s_.loop != &s_.mapping.loop;
  return fmt::format("a{}{}", i, s_.has_vector_sums() ? "[j]" : is_tail ? "[0]" : "");
}

std::string ValueText::kept_name(std::size_t i) const {
  if (!s_.schedule().is<WindowParameters>() && !s_.is_row_vector(i))
    return fmt::format("h{}{}", i, s_.keep_subscript);
  return fmt::format("h{}{}{}", i, s_.slot, s_.vector() > 1 && s_.per_element(i) ? "[j]" : "");
}

/// Address within the loop, relative to the pointer: " + i1 * 4".
std::string ValueText::loop_address(std::uint32_t access) const {
  return s_.index.address(analysis_.access(access), s_.mapping.thread_dims, false);
}

std::string ValueText::address(std::size_t i) const {
  const std::uint32_t access = analysis_.instr(i).access;
  return s_.pointers[access] + loop_address(access);
}

std::string ValueText::element(std::size_t i) const {
  const std::uint32_t a = analysis_.instr(i).access;
  const auto& access = analysis_.access(a);
  const bool loop = s_.in_loop(i);
  const DimSet all = analysis_.outer_dims() | analysis_.inner_dims();
  std::string index =
      loop ? loop_address(a)
           : s_.index.address(access, all, true) + s_.index.address(access, all, false);
  if (index.empty()) index = " + 0";
  const bool negative = index.starts_with(" - ");
  return fmt::format("{}[{}{}]", loop ? s_.pointers[a] : s_.args.buffer(access.buffer),
                     negative ? "-" : "", index.substr(3));
}

/// Whether a load is of data that many rows share, such as a norm's weights: every block reads it,
/// and so does the next run. Not for rows that share a warp, which gain too little.
bool ValueText::is_kept_in_cache(std::size_t i) const {
  const ir::Dim rows = analysis_.row_count();
  return s_.schedule().is<RowParameters>() && s_.schedule().threads_x >= 32 &&
         is_shared_by_rows(analysis_, i) && !(rows.is_constant() && rows.value() == 1) &&
         !analysis_.is_written(analysis_.access(analysis_.instr(i).access).buffer);
}

std::string ValueText::load(std::size_t i, bool whole) const {
  const auto& access = analysis_.access(analysis_.instr(i).access);
  const std::string load =
      s_.loads_exchanged(i)
          ? s_.mapping.gemm.load_exchanged
          : fmt::format("{}<{}>", is_kept_in_cache(i) ? "load_kept" : "load", s_.vector());
  const std::string value = whole ? fmt::format("{}({})", load, address(i)) : element(i);
  const std::string guards = s_.index.guards(access);
  if (guards.empty() && s_.mapping.load_guard.empty()) return value;
  const Schedule& schedule = s_.schedule();
  if (s_.in_loop(i) && (schedule.is<WindowParameters>() || schedule.is<PointwiseParameters>() ||
                        schedule.is<TileTranspose>() || schedule.is<StencilParameters>()))
    return load_if(i, whole ? s_.vector() : 1) + (whole ? "" : ".v[0]");
  if (guards.empty()) return value;
  std::string fill = this->fill(i);
  if (whole) fill = fmt::format("splat<{}>({})", s_.vector(), fill);
  return fmt::format("{} ? {} : {}", guards, value, fill);
}

std::string ValueText::fill(std::size_t i) const {
  const DType type = analysis_.memory_type(i);
  const double value = analysis_.access(analysis_.instr(i).access).fill;
  return fmt::format("narrow<{}>({})", storage_name(type),
                     print_constant(compute_type(type), value, ir::double_to_int(type, value)));
}

/// Terms are added to the pointer separately, so that constants become the instruction's offset.
std::string ValueText::load_if(std::size_t i, int count) const {
  std::string guards = s_.index.guards(analysis_.access(analysis_.instr(i).access));
  if (!s_.mapping.load_guard.empty())
    guards = s_.mapping.load_guard + (guards.empty() ? "" : " && " + guards);
  return fmt::format("load_if<{}>({}, {}, {})", count, guards, address(i), fill(i));
}

/// The value converted to the instruction's compute type.
std::string ValueText::widened(std::size_t i, const std::string& raw) const {
  const std::string value = fmt::format("widen({})", raw);
  if (compute_type(analysis_.memory_type(i)) == analysis_.type_of(i)) return value;
  return fmt::format("convert<{}>({})", type(i), value);
}

/// True for x - max(x) where x is a product. An FMA would use the unrounded product, while the
/// maximum was rounded: a softmax of large values would not reach zero.
bool ValueText::must_not_contract(std::size_t i) const {
  const auto& instr = analysis_.instr(i);
  if (static_cast<ScalarOp>(instr.op) != ScalarOp::kSub || analysis_.type_of(i) != DType::kFloat32)
    return false;
  const auto &value = analysis_.instr(instr.args[0]), &bound = analysis_.instr(instr.args[1]);
  return value.kind == InstrKind::Op && static_cast<ScalarOp>(value.op) == ScalarOp::kMul &&
         bound.kind == InstrKind::Reduce && bound.args[0] == instr.args[0];
}

bool ValueText::is_rounded_in_pairs(std::size_t i) const {
  const std::uint32_t value = s_.math.operands(i).empty() ? 0 : s_.math.operands(i)[0];
  return analysis_.instr(i).kind == InstrKind::Op && float8_rounded_to(s_.math.op(i)) &&
         s_.vector() % 2 == 0 && s_.per_element(value) &&
         analysis_.type_of(value) == DType::kFloat32;
}

std::string ValueText::op(std::size_t i) const {
  const auto& instr = analysis_.instr(i);
  const ScalarOp op = s_.math.op(i);
  std::vector<Operand> operands;
  for (std::uint32_t arg : s_.math.operands(i)) {
    Operand operand;
    operand.text = s_.names[arg];
    if (analysis_.instr(arg).kind == InstrKind::Constant) operand.constant = &analysis_.instr(arg);
    if (s_.in_loop(i) && (op != ScalarOp::kQuotient || s_.math.by_inverse(i)))
      operand.inverse = s_.inverses[arg];
    operands.push_back(std::move(operand));
  }
  constexpr std::string_view kElement = "[j]";
  if (is_rounded_in_pairs(i) && operands[0].text.ends_with(kElement)) {
    operands[0].text.resize(operands[0].text.size() - kElement.size());
    return fmt::format("{}<{}>({}, j)",
                       s_.math.function(i) ? "round_element_saturated" : "round_element",
                       storage_name(*float8_rounded_to(op)), operands[0].text);
  }
  // Division by a divisor of the whole row has become a multiplication.
  const bool is_product =
      op == ScalarOp::kDiv && (operands[1].constant != nullptr || !operands[1].inverse.empty());
  if (const char* function = is_product ? nullptr : s_.math.function(i)) {
    if (operands.size() == 1) return fmt::format("{}({})", function, operands[0].text);
    return fmt::format("{}({}, {})", function, operands[0].text, operands[1].text);
  }
  if (must_not_contract(i))
    return fmt::format("difference({}, {})", operands[0].text, operands[1].text);
  if (op == ScalarOp::kCast && instr.precision != plan::fb::Precision::Full)
    return fmt::format("convert_to_odd({})", operands[0].text);
  const DType from = analysis_.type_of(instr.args[op == ScalarOp::kSelect ? 1 : 0]);
  return print_op(op, analysis_.type_of(i), from, operands);
}

std::string ValueText::loaded(std::size_t i) const {
  const bool vectors = s_.vector() > 1;
  if (const auto* product = s_.product(i))
    return vectors ? product->sums + "[j]" : product->element;
  if (!s_.in_loop(i)) return widened(i, load(i, false));
  if (s_.is_transposed(i)) {
    const int height = s_.schedule().as<TileTranspose>().height;
    return widened(
        i, vectors ? fmt::format("c{}[j * {}]", i, height) : fmt::format("*m{}.at(x, y)", i));
  }
  if (s_.staged[i]) return widened(i, fmt::format("l{}, j", i));
  const bool ahead = s_.is_preloaded(i);
  if (vectors && s_.per_element(i) && s_.is_vector(i))
    return widened(i, fmt::format("r{}{}, j", i, ahead ? raw_subscript(i) : ""));
  return widened(i, ahead ? fmt::format("r{}{}", i, s_.keep_subscript) : load(i, false));
}

std::string ValueText::value(std::size_t i) const {
  const auto& instr = analysis_.instr(i);
  switch (instr.kind) {
    case InstrKind::Load: return loaded(i);
    case InstrKind::Constant: return print_constant(instr);
    case InstrKind::Index: {
      const std::string& index = s_.index.index(instr.dim).text;
      return index.front() == '(' ? type(i) + index : fmt::format("{}({})", type(i), index);
    }
    case InstrKind::Size:
      if (analysis_.exprs().is_constant(instr.expression)) {
        const std::int64_t size = analysis_.exprs().constant(instr.expression);
        return print_constant(analysis_.type_of(i), static_cast<double>(size), size);
      }
      return fmt::format("{}({})", type(i), s_.args.expression(instr.expression));
    default: return op(i);
  }
}

std::string ValueText::stored(std::size_t i) const {
  const std::uint32_t value = s_.math.operands(i)[0];
  const DType type = compute_type(analysis_.memory_type(i));
  if (analysis_.type_of(value) == type) return s_.names[value];
  return fmt::format("convert<{}>({})", compute_name(type), s_.names[value]);
}

std::string ValueText::packed(std::size_t i) const {
  return fmt::format("{}<{}>::of(t{})", s_.math.saturates(i) ? "PackSaturated" : "Pack",
                     memory_type(i), i);
}

std::string ValueText::narrowed(std::size_t i, const std::string& value) const {
  return fmt::format("{}<{}>({})", s_.math.saturates(i) ? "narrow_saturated" : "narrow",
                     memory_type(i), value);
}

std::string ValueText::writes(std::size_t i) const {
  std::string condition = s_.mapping.live_row;
  if ((!s_.in_loop(i) || s_.is_row_vector(i)) && !s_.mapping.leader.empty())
    condition += (condition.empty() ? "" : " && ") + s_.mapping.leader;
  return condition;
}

}  // namespace sinter::codegen
