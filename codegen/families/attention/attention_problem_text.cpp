// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/attention/attention_problem_text.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/emit/arguments.h"
#include "codegen/emit/kernel_text.h"

namespace sinter::codegen {
namespace {

std::string float_literal(double value) {
  if (std::isinf(value)) return value < 0 ? "-infinity()" : "infinity()";
  const std::string digits = fmt::format("{}", static_cast<float>(value));
  return digits + (digits.find_first_of(".e") == std::string::npos ? ".0f" : "f");
}

/// Keeps finite scores finite in base 2.
double in_base_2(double score) {
  const double most = std::numeric_limits<float>::max();
  return std::isinf(score) ? score : std::clamp(score / std::log(2.0), -most, most);
}

}  // namespace

AttentionParameters::AttentionParameters(const AttentionProgram& program, ExprTable& exprs,
                                         std::vector<DType> types)
    : exprs_(exprs), result_(program.y.buffer) {
  types.resize(program.buffers.size());
  for (const AttentionOperand* operand : program.operands())
    if (operand->buffer != kPrologueValue) types[operand->buffer] = operand->dtype;
  for (std::size_t b = 0; program.scores && b < program.score_types.size(); ++b)
    if (const auto at = std::ranges::find(program.buffers, program.scores->buffers[b]);
        at != program.buffers.end())
      types[static_cast<std::size_t>(at - program.buffers.begin())] = program.score_types[b];
  for (std::uint32_t b = 0; b < types.size(); ++b) {
    const bool written = program.writes(b), read = b != result_;
    names_.push_back(buffer(b));
    texts_.push_back(fmt::format("{}{}*{} {}", written ? "" : "const ", storage_name(types[b]),
                                 read && written ? "" : " __restrict__", names_.back()));
    args_.emplace_back(ArgKind::Buffer, program.buffers[b]);
  }
}

std::string AttentionParameters::buffer(std::uint32_t b) const {
  return b == result_ ? "y" : fmt::format("x{}", b);
}

std::string AttentionParameters::size(std::uint32_t expression) {
  const Dim dim = exprs_.dim(expression);
  if (dim.is_constant()) return int_literal(dim.value());
  const auto known = sizes_.find(expression);
  if (known != sizes_.end()) return known->second;
  const std::string name = fmt::format("n{}", sizes_.size());
  sizes_.emplace(expression, name);
  names_.push_back(name);
  texts_.push_back(fmt::format("i64 {} /* {} */", name, comment_text(dim.to_string())));
  args_.emplace_back(ArgKind::Int64, expression);
  return name;
}

std::vector<std::string> AttentionParameters::inputs() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (texts_[i].starts_with("const ")) names.push_back(names_[i]);
  return names;
}

std::string ProblemText::write(bool has_maps) {
  line("AttentionProblem<Shape> p;");
  if (p_.bounds) {
    write_packed_coordinates();
    if (p_.tables) write_paged_coordinates();
  } else {
    line(fmt::format("p.rows = i32({});", args_.dim(p_.rows)));
    line(fmt::format("p.keys = i32({});", args_.dim(p_.keys)));
    write_coordinates();
    if (p_.tables) write_paged_coordinates();
  }
  for (std::size_t axis = 0; has_maps && axis < p_.batch.size(); ++axis)
    line(fmt::format("p.batch[{}] = i32(b{});", axis, axis));
  if (p_.front)
    line("p.q = nullptr;");  // the block's prologue computes it
  else
    operand("q", p_.q);
  operand("k", p_.k);
  operand("v", p_.v);
  operand("y", p_.y);
  if (p_.key_scales) {
    operand("key_scale", *p_.key_scales);
    operand("value_scale", *p_.value_scales);
  }
  if (p_.rounding || p_.eight_bit)
    line(fmt::format("p.y_factor = {};",
                     float_literal(p_.value_scale / (p_.rounding ? p_.rounding->scale : 1.0))));
  if (p_.rounding) {
    line(fmt::format("p.y_zero = {};", float_literal(p_.rounding->zero)));
  }
  line(p_.mask ? fmt::format("p.mask = {};", address(*p_.mask)) : "p.mask = nullptr;");
  line(fmt::format("p.mask_row = {};", p_.mask ? args_.dim(p_.mask->row) : "0"));
  line(fmt::format("p.mask_key = {};", p_.mask ? args_.dim(p_.mask->column) : "0"));
  line(p_.causal == 2 ? "p.diagonal = p.keys - p.rows;" : "p.diagonal = 0;");
  if (p_.has_row_limits()) {
    line(fmt::format(
        "p.limits = {}{};", address(*p_.limits),
        p_.tables ? fmt::format(" + i64{{tile.begin}} * {}", args_.dim(p_.limits->row)) : ""));
    line(fmt::format("p.limit_row = {};", args_.dim(p_.limits->row)));
  } else if (p_.limits) {
    line(fmt::format("const auto* limit = {};", address(*p_.limits)));
    line("p.keys = keys_before(kProgrammatic ? old_value(limit) : *limit, p.keys);");
  }
  if (score_ != nullptr) {
    line(fmt::format("p.score = {};", score_->value));
    line(fmt::format("p.score_scale = {};", float_literal(score_->front)));
  }
  line(fmt::format("p.scale = {};", float_literal(score_ ? score_->behind : p_.scale)));
  line(fmt::format("p.fill = {};", float_literal(in_base_2(p_.fill))));
  line("return p;");
  return std::move(text_);
}

std::string ProblemText::write_prologue(const std::vector<OperandFunction>& functions,
                                        bool is_given) {
  line("AttentionProblem<Shape> p;");
  line(fmt::format("p.rows = i32({});", args_.dim(p_.rows)));
  write_coordinates();
  const AttentionPrologue& front = *p_.front;
  constexpr std::int64_t kWarp = 32;
  std::int64_t first = 0, end = 0;
  std::string parts;
  const auto part = [&](const char* to, const PrologueOperand& made, std::int64_t rows,
                        std::int64_t width, const OperandFunction& function) {
    first = (end + kWarp - 1) / kWarp * kWarp;
    const std::int64_t across = width / function.vector;
    end = first + rows * across;
    const std::string at = first == 0 ? "at" : fmt::format("(at - {})", first);
    std::string element = place_of(made.offset, made.batch);
    if (made.row != Dim(0)) element += fmt::format(" + row * {}", args_.dim(made.row));
    parts += fmt::format(
        "    if ({} < {}) {{\n      const u32 row = {} / {}, column = {} % {} * {};\n"
        "      const i64 element = {};  // the row's first\n      {};\n    }}\n",
        at, rows * across, at, across, at, across, function.vector, element,
        call(function, fmt::format("{} + row * {} - element", to, width),
             fmt::format("{}((element + column) / {})", function.number, function.vector)));
  };
  part("queries", front.q, p_.rows.value(), p_.head, functions[0]);
  part("key", front.k, 1, p_.head, functions[1]);
  part("value", front.v, 1, p_.value_head, functions[2]);
  const std::string slot_address =
      fmt::format("{} + {}", args_.buffer(front.slot_buffer), args_.dim(front.slot_offset));
  if (is_given) line(fmt::format("const i64 place = *({});", slot_address));
  line("bool waits = true;");
  line("const auto wait_once = [&] {");
  line("  if (waits) wait();");
  line("  waits = false;");
  line("};");
  line(
      fmt::format("for (u32 at = threadIdx.x; at < {}; "
                  "at += Shape::kThreads * Shape::kKeyGroups) {{",
                  end));
  text_ += parts;
  line("}");
  line("wait_once();");
  if (!is_given) line(fmt::format("const i64 place = *after_grid_wait({});", slot_address));
  const std::string keys = args_.dim(p_.keys);
  line(fmt::format("return has_index(place, {0}) ? i32(wrap_index(place, {0})) : -1;", keys));
  return std::move(text_);
}

std::string ProblemText::call(const OperandFunction& function, const std::string& to,
                              const std::string& number) {
  std::vector<std::string> arguments;
  for (const std::uint32_t buffer : function.buffers)
    arguments.push_back(buffer == kPrologueValue ? to : args_.buffer(buffer));
  for (const std::uint32_t size : function.sizes) arguments.push_back(args_.size(size));
  if (!number.empty()) arguments.insert(arguments.end(), {number, "wait_once"});
  return fmt::format("{}({})", number.empty() ? function.fetch : function.name,
                     fmt::join(arguments, ", "));
}

/// Items whose rows see many keys go first, if rows differ.
void ProblemText::write_coordinates() {
  line("const u32 tiles = (p.rows + Shape::kRows - 1) / Shape::kRows;");
  const char* const head = p_.batch.size() > 1 ? "u32 head" : "const u32 head";
  if (p_.causal != 0 || p_.has_row_limits()) {
    line(fmt::format("const auto place = causal_item<Shape>(item, tiles, u32({}), p.keys);",
                     args_.dim(ir::element_count(p_.batch))));
    line("p.first_row = place.tile * Shape::kRows;");
    if (!p_.batch.empty()) line(fmt::format("{} = place.head;", head));
  } else {
    line("p.first_row = (item % tiles) * Shape::kRows;");
    if (!p_.batch.empty()) line(fmt::format("{} = item / tiles;", head));
  }
  write_head_coordinates();
}

/// Tiles of all sequences, heads innermost; the tile's sequence is looked up.
void ProblemText::write_packed_coordinates() {
  const std::string heads = args_.dim(ir::element_count(p_.batch)), bounds = address(*p_.bounds),
                    sequences = args_.dim(p_.sequences), rows = args_.dim(p_.rows);
  line(fmt::format("const i32 number = item / u32({});", heads));
  line("PackedTile tile;");
  line("if (found != nullptr) {  // by other warps of the block");
  line("  tile = *found;");
  line("} else {");
  line("  // In front of the search, which it would else wait for.");
  line(fmt::format("  const auto packed = tokens_of_all({}, i32({}), i32({}));", bounds, sequences,
                   rows));
  line(fmt::format("  tile = packed_tile<Shape>({}, i32({}), i32({}), number);", bounds, sequences,
                   rows));
  line(fmt::format("  p.spare = spare_rows(packed, i32({}), tile.begin, number, i32(tiles));",
                   rows));
  line("}");
  line("p.rows = tile.tokens * Shape::kGroup;");
  line("p.keys = tile.tokens;");
  line("p.first_row = tile.first_row;");
  if (!p_.batch.empty())
    line(
        fmt::format("{} head = item % u32({});", p_.batch.size() > 1 ? "u32" : "const u32", heads));
  write_head_coordinates();
}

/// The keys of the sequence.
void ProblemText::write_paged_coordinates() {
  if (p_.bounds) {
    line(fmt::format("p.table = {} + i64{{tile.sequence}} * {};", address(*p_.tables),
                     args_.dim(p_.tables->row)));
    line("p.sequence = tile.sequence;");
  } else {
    line(fmt::format("p.table = {};", address(*p_.tables)));
    line("p.sequence = 0;");
  }
  line(fmt::format("p.keys = i32({}) * Shape::kBlock;", args_.dim(p_.table_blocks)));
  line(fmt::format("p.cache_rows = i32({});", args_.dim(p_.keys)));
  line(fmt::format("p.q_member = {};", args_.dim(p_.q_member)));
  line(fmt::format("p.y_member = {};", args_.dim(p_.y_member)));
}

void ProblemText::write_head_coordinates() {
  for (std::size_t axis = p_.batch.size(); axis-- > 1;) {
    const std::string extent = args_.dim(p_.batch[axis]);
    line(fmt::format("const i64 b{} = head % u32({});", axis, extent));
    line(fmt::format("head /= u32({});", extent));
  }
  if (!p_.batch.empty()) line("const i64 b0 = head;");
}

std::string ProblemText::address(const AttentionOperand& operand) {
  const std::string offset = place_of(operand.offset, operand.batch);
  return args_.buffer(operand.buffer) + (offset == "0" ? "" : " + " + offset);
}

/// Offset of an item's first element.
std::string ProblemText::place_of(const Dim& offset, const std::vector<Dim>& batch) {
  std::string text = offset == Dim(0) ? "" : args_.dim(offset);
  for (std::size_t axis = 0; axis < p_.batch.size(); ++axis) {
    if (batch[axis] == Dim(0)) continue;
    text += fmt::format("{}b{}", text.empty() ? "" : " + ", axis);
    if (batch[axis] != Dim(1)) text += fmt::format(" * {}", args_.dim(batch[axis]));
  }
  return text.empty() ? "0" : text;
}

void ProblemText::operand(const char* name, const AttentionOperand& operand) {
  // The block table gives the rows of keys of a paged cache.
  const bool is_cache = p_.tables && name[0] != 'q' && name[0] != 'y';
  const std::string begin = p_.bounds && !is_cache
                                ? fmt::format(" + i64{{tile.begin}} * {}", args_.dim(operand.row))
                                : "";
  line(fmt::format("p.{} = {}{};", name, address(operand), begin));
  line(fmt::format("p.{}_stride = {};", name, args_.dim(operand.row)));
}

}  // namespace sinter::codegen
