// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/arguments.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace sinter::codegen {

std::string storage_name(DType type) {
  constexpr std::array<const char*, kDTypeCount> names = {
      "b8",  "i8",   "i16",   "i32",    "i64",    "u8",   "u16",      "u32",     "u64",
      "f16", "bf16", "float", "double", "e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz"};
  return names[static_cast<std::size_t>(type)];
}

std::string compute_name(DType type) {
  if (type == DType::kBool) return "bool";
  return storage_name(compute_type(type));
}

Arguments::Arguments(const ProgramAnalysis& analysis)
    : analysis_(&analysis),
      data_(analysis.exprs(), [this](const Dim& known) { return dim(known); }) {
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
  size.from_data = exprs.is_from_data(expression);
  sizes_.push_back(size);
  if (size.from_data) data_.add(Dim(exprs.dim(expression)));
  return size.name;
}

std::string Arguments::sizes_from_data(const Dim& blocks) {
  const std::string end = data_.end_of_blocks(blocks, analysis_->request().block);
  std::string lines = data_.lines();
  for (const Size& size : sizes_)
    if (size.from_data)
      lines += fmt::format("  const {0} {1} = {0}({2});\n", size.wide ? "i64" : "i32", size.name,
                           data_.text(analysis_->exprs().dim(size.expression)));
  return lines + end;
}

std::vector<std::string> Arguments::parameters() const {
  std::vector<std::string> all;
  for (std::size_t b = 0; b < buffer_names_.size(); ++b) {
    if (is_hidden(b)) continue;
    const std::string type = storage_name(analysis_->buffer_type(b));
    const bool read = analysis_->is_read(b), written = analysis_->is_written(b);
    // A task's kernel has other tasks, which write what this one reads.
    const bool is_alone = !analysis_->request().task ||
                          analysis_->request().given.contains(analysis_->program().buffers[b]);
    all.push_back(fmt::format("{}{}*{} {}", written ? "" : "const ", type,
                              (read && written) || !is_alone ? "" : " __restrict__",
                              parameter_name(b)));
  }
  if (analysis_->request().summands) all.emplace_back("Peers* peers");
  if (analysis_->request().scan_tiles) all.emplace_back("u64* tiles");
  for (std::string& extent : data_.parameters()) all.push_back(std::move(extent));
  for (const Size& size : sizes_) {
    if (size.from_data) continue;
    const std::string comment = comment_text(analysis_->exprs().dim(size.expression).to_string());
    all.push_back(fmt::format("{} {} /* {} */", size.wide ? "i64" : "i32", size.name, comment));
  }
  return all;
}

bool Arguments::is_summand(std::size_t buffer) const {
  const auto& summands = analysis_->request().summands;
  return summands && summands->buffer == buffer;
}

std::string Arguments::parameter_name(std::size_t buffer) const {
  return buffer_names_[buffer] + (is_summand(buffer) ? "_own" : "");
}

std::string Arguments::summands() const {
  const auto& summands = analysis_->request().summands;
  if (!summands) return "";
  return fmt::format("  const Summands<{}, {}> {}({}, peers);\n",
                     storage_name(analysis_->buffer_type(summands->buffer)), summands->ranks,
                     buffer_names_[summands->buffer], parameter_name(summands->buffer));
}

std::vector<KernelArg> Arguments::kernel_args() const {
  std::vector<KernelArg> args;
  const auto& buffers = analysis_->program().buffers;
  for (std::size_t b = 0; b < buffers.size(); ++b)
    if (!is_hidden(b)) args.emplace_back(ArgKind::Buffer, buffers[b]);
  if (const auto& summands = analysis_->request().summands)
    args.emplace_back(ArgKind::Buffer, summands->peers);
  if (analysis_->request().scan_tiles)
    args.emplace_back(ArgKind::Buffer, *analysis_->request().scan_tiles);
  for (const KernelArg& extent : data_.args()) args.push_back(extent);
  for (const Size& size : sizes_)
    if (!size.from_data)
      args.emplace_back(size.wide ? ArgKind::Int64 : ArgKind::Int32, size.expression);
  return args;
}

std::vector<std::string> Arguments::after_grid_wait() const {
  std::vector<std::string> lines;
  for (std::size_t b = 0; b < buffer_names_.size(); ++b)
    if (!is_hidden(b) && !analysis_->is_written(b) &&
        !analysis_->request().given.contains(analysis_->program().buffers[b]))
      lines.push_back(fmt::format("{0} = after_grid_wait({0});", parameter_name(b)));
  return lines;
}

}  // namespace sinter::codegen
