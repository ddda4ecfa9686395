#include "codegen/emit/arguments.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace sinter::codegen {

std::string storage_name(DType type) {
  constexpr std::array<const char*, kDTypeCount> names = {
      "b8", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "float", "double"};
  return names[static_cast<std::size_t>(type)];
}

std::string compute_name(DType type) {
  if (type == DType::kBool) return "bool";
  return storage_name(compute_type(type));
}

std::string int_literal(std::int64_t value) {
  if (value == INT64_MIN) return "(-9223372036854775807LL - 1)";
  std::string digits = fmt::format("{}", value < 0 ? -value : value);
  if (value > INT32_MAX || value < -INT32_MAX) digits += "LL";
  return value < 0 ? fmt::format("(-{})", digits) : digits;
}

Arguments::Arguments(const ProgramAnalysis& analysis) : analysis_(&analysis) {
  std::size_t reads = 0, writes = 0;
  const std::vector<std::string>& operands = analysis.request().operands;
  const std::size_t numbered = analysis.program().buffers.size() - operands.size();
  for (std::size_t b = 0; b < analysis.program().buffers.size(); ++b) {
    if (b >= numbered) {
      buffer_names_.push_back(operands[b - numbered]);
      continue;
    }
    if (is_hidden(b)) {
      buffer_names_.emplace_back();
      continue;
    }
    const bool written = analysis.is_written(b);
    buffer_names_.push_back(written ? fmt::format("y{}", writes++) : fmt::format("x{}", reads++));
  }
}

bool Arguments::is_hidden(std::size_t buffer) const {
  return analysis_->request().hidden == buffer;
}

std::string Arguments::expression(std::uint32_t expression) {
  const ExprTable& exprs = analysis_->exprs();
  if (exprs.is_constant(expression)) return int_literal(exprs.constant(expression));
  for (const Size& size : sizes_)
    if (size.expression == expression) return size.name;
  Size size;
  size.expression = expression;
  size.name = fmt::format("n{}", sizes_.size());
  const auto low = exprs.lower_bound(expression), high = exprs.upper_bound(expression);
  size.wide = !(low && *low >= -INT32_MAX && high && *high <= INT32_MAX);
  sizes_.push_back(size);
  return size.name;
}

std::vector<std::string> Arguments::parameters() const {
  std::vector<std::string> all;
  for (std::size_t b = 0; b < buffer_names_.size(); ++b) {
    if (is_hidden(b)) continue;
    const std::string type = storage_name(analysis_->buffer_type(b));
    const bool read = analysis_->is_read(b), written = analysis_->is_written(b);
    all.push_back(fmt::format("{}{}*{} {}", written ? "" : "const ", type,
                              read && written ? "" : " __restrict__", buffer_names_[b]));
  }
  for (const Size& size : sizes_) {
    std::string comment = analysis_->exprs().dim(size.expression).to_string();
    // A model's names may hold anything; they must not end the comment.
    for (std::size_t at = 0; (at = comment.find("*/", at)) != std::string::npos;)
      comment.insert(at + 1, " ");
    std::replace_if(
        comment.begin(), comment.end(),
        [](unsigned char c) { return std::iscntrl(c) != 0 || c == '\\'; }, '?');
    all.push_back(fmt::format("{} {} /* {} */", size.wide ? "i64" : "i32", size.name, comment));
  }
  return all;
}

std::vector<KernelArg> Arguments::kernel_args() const {
  std::vector<KernelArg> args;
  const auto& buffers = analysis_->program().buffers;
  for (std::size_t b = 0; b < buffers.size(); ++b)
    if (!is_hidden(b)) args.emplace_back(ArgKind::Buffer, buffers[b]);
  for (const Size& size : sizes_)
    args.emplace_back(size.wide ? ArgKind::Int64 : ArgKind::Int32, size.expression);
  return args;
}

std::vector<std::string> Arguments::after_grid_wait() const {
  std::vector<std::string> lines;
  for (std::size_t b = 0; b < buffer_names_.size(); ++b)
    if (!is_hidden(b) && !analysis_->is_written(b) &&
        !analysis_->request().given.contains(analysis_->program().buffers[b]))
      lines.push_back(fmt::format("{0} = after_grid_wait({0});", buffer_names_[b]));
  return lines;
}

}  // namespace sinter::codegen
