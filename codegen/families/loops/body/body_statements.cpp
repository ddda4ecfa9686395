// Single statements and expressions of a kernel's body.
#include <fmt/format.h>

#include "codegen/families/loops/body/body_writer.h"
#include "codegen/families/loops/schedule_parts.h"
#include "ir/scalar_math.h"
#include "runtime/plan/loop_values.h"

namespace sinter::codegen {

using plan::fb::InstrKind;

void BodyWriter::declare_all(const std::vector<std::string>& lines) {
  for (const std::string& line : lines)
    if (line.starts_with("const "))
      code_.declare(line);
    else
      code_.line(line);
}

void BodyWriter::open_vectors() {
  if (!mapping_->loop_header.empty()) {
    if (mapping_->unrolled() || !mapping_->group_header.empty()) code_.line("#pragma unroll");
    code_.open(mapping_->loop_header);
    declare_all(mapping_->loop_lines);
  } else {
    code_.open("");
  }
  code_.open(mapping_->predicate.empty() ? "" : fmt::format("if ({})", mapping_->predicate));
}

void BodyWriter::close_vectors() {
  code_.close();
  code_.close();
}

void BodyWriter::open_elements() {
  if (vector() == 1) {
    code_.open("");
    return;
  }
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int j = 0; j < {}; ++j)", vector()));
  const auto dim = static_cast<std::size_t>(mapping_->schedule->vector_dim);
  index_.set_index(dim, fmt::format("(i{} + j)", dim));
}

void BodyWriter::close_elements() {
  code_.close();
  if (vector() == 1) return;
  const auto dim = static_cast<std::size_t>(mapping_->schedule->vector_dim);
  index_.set_index(dim, fmt::format("i{}", dim));
}

std::string BodyWriter::buffer_type_name(std::size_t i) const {
  return storage_name(analysis_.buffer_type(analysis_.access(analysis_.instr(i).access).buffer));
}

/// Where in the loop an access is, counted from its pointer: " + i1 * 4".
std::string BodyWriter::loop_address(std::uint32_t access) const {
  return index_.address(analysis_.access(access), mapping_->thread_dims, false);
}

/// The one element that a load or store is about: "p0[i1 * 4]".
std::string BodyWriter::element(std::size_t i) const {
  const std::uint32_t a = analysis_.instr(i).access;
  const auto& access = analysis_.access(a);
  const bool loop = in_loop(i);
  const DimSet all = analysis_.outer_dims() | analysis_.inner_dims();
  std::string place = loop ? loop_address(a)
                           : index_.address(access, all, true) + index_.address(access, all, false);
  if (place.empty()) place = " + 0";
  const bool negative = place.starts_with(" - ");
  return fmt::format("{}[{}{}]", loop ? pointers_[a] : args_.buffer(access.buffer),
                     negative ? "-" : "", place.substr(3));
}

/// What all rows of many share, such as a norm's weights: every block reads it, and the next run.
/// Of rows that share a warp too little to gain from it.
bool BodyWriter::is_kept_in_cache(std::size_t i) const {
  const ir::Dim rows = analysis_.size_of_dims(analysis_.outer_dims());
  return mapping_->schedule->family == Family::kRow && mapping_->schedule->threads_x >= 32 &&
         is_shared_by_rows(analysis_, i) && !(rows.is_constant() && rows.value() == 1) &&
         !analysis_.is_written(analysis_.access(analysis_.instr(i).access).buffer);
}

bool BodyWriter::loads_exchanged(std::size_t i) const {
  return !mapping_->load_exchanged.empty() && is_shared_by_rows(analysis_, i) &&
         index_.guards(analysis_.access(analysis_.instr(i).access)).empty();
}

/// The bits that a load reads: an element, or if `whole` a vector.
std::string BodyWriter::raw_expression(std::size_t i, bool whole) const {
  const auto& instr = analysis_.instr(i);
  const auto& access = analysis_.access(instr.access);
  const DType type = analysis_.buffer_type(access.buffer);
  const std::string load =
      loads_exchanged(i)
          ? mapping_->load_exchanged
          : fmt::format("{}<{}>", is_kept_in_cache(i) ? "load_kept" : "load", vector());
  const std::string value =
      whole ? fmt::format("{}({}{})", load, pointers_[instr.access], loop_address(instr.access))
            : element(i);
  const std::string guards = index_.guards(access);
  if (guards.empty()) return value;
  std::string fill =
      print_constant(compute_type(type), access.fill, ir::double_to_int(type, access.fill));
  fill = fmt::format("narrow<{}>({})", storage_name(type), fill);
  const Family family = mapping_->schedule->family;
  if (in_loop(i) &&
      (family == Family::kWindow || family == Family::kPointwise || family == Family::kTranspose))
    // Terms are added to the pointer one by one: constant ones become the instruction's offset.
    return fmt::format("load_if<{}>({}, {}{}, {}){}", whole ? vector() : 1, guards,
                       pointers_[instr.access], loop_address(instr.access), fill,
                       whole ? "" : ".v[0]");
  if (whole) fill = fmt::format("splat<{}>({})", vector(), fill);
  return fmt::format("{} ? {} : {}", guards, value, fill);
}

/// The value in the instruction's compute type.
std::string BodyWriter::widened(std::size_t i, const std::string& raw) const {
  const auto& access = analysis_.access(analysis_.instr(i).access);
  const std::string value = fmt::format("widen({})", raw);
  if (compute_type(analysis_.buffer_type(access.buffer)) == analysis_.type_of(i)) return value;
  return fmt::format("convert<{}>({})", compute_name(analysis_.type_of(i)), value);
}

/// True for x - max(x) where x is a product: contracted into one operation, the product would not
/// be the one whose rounded value the greatest is, and a softmax of large values not end at zero.
bool BodyWriter::must_not_contract(std::size_t i) const {
  const auto& instr = analysis_.instr(i);
  if (static_cast<ScalarOp>(instr.op) != ScalarOp::kSub || analysis_.type_of(i) != DType::kFloat32)
    return false;
  const auto &value = analysis_.instr(instr.args[0]), &bound = analysis_.instr(instr.args[1]);
  return value.kind == InstrKind::Op && static_cast<ScalarOp>(value.op) == ScalarOp::kMul &&
         bound.kind == InstrKind::Reduce && bound.args[0] == instr.args[0];
}

std::string BodyWriter::op_expression(std::size_t i) const {
  const auto& instr = analysis_.instr(i);
  const auto op = static_cast<ScalarOp>(instr.op);
  std::vector<Operand> operands;
  for (std::uint32_t arg : math_.operands(i)) {
    Operand operand;
    operand.text = names_[arg];
    if (analysis_.instr(arg).kind == InstrKind::Constant) operand.constant = &analysis_.instr(arg);
    if (in_loop(i)) operand.inverse = inverses_[arg];
    operands.push_back(std::move(operand));
  }
  // A division by what divides a whole row is a product already.
  const bool is_product =
      op == ScalarOp::kDiv && (operands[1].constant != nullptr || !operands[1].inverse.empty());
  if (const char* function = is_product ? nullptr : math_.function(i)) {
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

std::string BodyWriter::value_expression(std::size_t i) const {
  const auto& instr = analysis_.instr(i);
  switch (instr.kind) {
    case InstrKind::Load: {
      if (const auto* product = mapping_->product_read(i))
        return vector() > 1 ? product->sums + "[j]" : fmt::format("Tile::sum({})", product->vector);
      if (!in_loop(i)) return widened(i, raw_expression(i, false));
      if (is_turned(i))
        return widened(i, vector() > 1
                              ? fmt::format("c{}[j * {}]", i, mapping_->schedule->turn.height)
                              : fmt::format("*m{}.at(x, y)", i));
      const std::string k = is_preloaded(i) ? raw_subscript(i) : "";
      if (is_staged(i)) return widened(i, fmt::format("l{}, j", i));
      if (vector() > 1 && per_element(i) && is_vector(i))
        return widened(i, fmt::format("r{}{}, j", i, k));
      if (is_preloaded(i)) return widened(i, fmt::format("r{}{}", i, keep_subscript_));
      return widened(i, raw_expression(i, false));
    }
    case InstrKind::Constant: return print_constant(instr);
    case InstrKind::Index: {
      const std::string& index = index_.index(instr.dim).text;
      const std::string type = compute_name(analysis_.type_of(i));
      return index.front() == '(' ? type + index : fmt::format("{}({})", type, index);
    }
    case InstrKind::Size:
      if (analysis_.exprs().is_constant(instr.expression)) {
        const std::int64_t size = analysis_.exprs().constant(instr.expression);
        return print_constant(analysis_.type_of(i), static_cast<double>(size), size);
      }
      return fmt::format("{}({})", compute_name(analysis_.type_of(i)),
                         args_.expression(instr.expression));
    default: return op_expression(i);
  }
}

void BodyWriter::define(std::size_t i, const std::string& type, const std::string& expression) {
  code_.define(fmt::format("const {} v{} = {};", type, i, expression));
  names_[i] = fmt::format("v{}", i);
  if (!divides_[i]) return;
  code_.define(fmt::format("const float d{0} = reciprocal(v{0});", i));
  inverses_[i] = fmt::format("d{}", i);
}

/// The scan's value at the element at hand; q is what has been combined so far.
void BodyWriter::running_value(std::size_t i) {
  const auto& instr = analysis_.instr(i);
  const std::string step =
      fmt::format("q{0} = {1}::of(q{0}, {2});", i, combine_name(static_cast<Combine>(instr.op)),
                  names_[instr.args[0]]);
  if (!instr.exclusive) code_.line(step);
  if (kept_[i]) {
    names_[i] = fmt::format("h{}{}", i, keep_subscript_);
    code_.line(fmt::format("{} = q{};", names_[i], i));
  } else {
    define(i, compute_name(analysis_.type_of(i)), fmt::format("q{}", i));
  }
  if (instr.exclusive) code_.line(step);
}

std::string BodyWriter::kept_name(std::size_t i) const {
  if (mapping_->schedule->family != Family::kWindow && !is_row_vector(i))
    return fmt::format("h{}{}", i, keep_subscript_);
  return fmt::format("h{}{}{}", i, slot_, vector() > 1 && per_element(i) ? "[j]" : "");
}

void BodyWriter::statement(std::size_t i) {
  const InstrKind kind = analysis_.instr(i).kind;
  if (kind == InstrKind::Scan) return running_value(i);
  const std::string expression = value_expression(i);
  if (kind == InstrKind::Constant || kind == InstrKind::Index || kind == InstrKind::Size) {
    names_[i] = expression;
  } else if (kept_[i]) {
    names_[i] = kept_name(i);
    code_.line(fmt::format("{} = {};", names_[i], expression));
  } else {
    define(i, compute_name(analysis_.type_of(i)), expression);
  }
}

/// The stored value in the compute type of the buffer.
std::string BodyWriter::stored_value(std::size_t i) const {
  const auto& instr = analysis_.instr(i);
  const DType type = compute_type(analysis_.buffer_type(analysis_.access(instr.access).buffer));
  const std::string& value = names_[instr.args[0]];
  if (analysis_.type_of(instr.args[0]) == type) return value;
  return fmt::format("convert<{}>({})", compute_name(type), value);
}

/// Holds in the threads that store `i`; empty: in all.
std::string BodyWriter::writes(std::size_t i) const {
  std::string condition = mapping_->live_row;
  if ((!in_loop(i) || is_row_vector(i)) && !mapping_->leader.empty())
    condition += (condition.empty() ? "" : " && ") + mapping_->leader;
  return condition;
}

void BodyWriter::store_scalar(std::size_t i) {
  std::string condition = writes(i);
  const auto& instr = analysis_.instr(i);
  std::string value = stored_value(i);
  if (instr.kind == InstrKind::Scatter) {
    const std::string inside = index_.gathered_inside(analysis_.access(instr.access));
    if (!inside.empty()) condition += (condition.empty() ? "" : " && ") + inside;
    if (instr.op != plan::kScatterReplaces)
      value = fmt::format("{}::of(widen({}), {})", combine_name(static_cast<Combine>(instr.op)),
                          element(i), value);
  }
  code_.line(fmt::format("{}{} = narrow<{}>({});",
                         condition.empty() ? "" : fmt::format("if ({}) ", condition), element(i),
                         buffer_type_name(i), value));
}

}  // namespace sinter::codegen
