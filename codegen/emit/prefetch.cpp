// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/prefetch.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

namespace sinter::codegen {
namespace {

constexpr std::int64_t kMostBlocks = 264;  // two for each multiprocessor of a large GPU
constexpr std::int64_t kMostBytes = 8192, kLine = 128;

class Fetches {
 public:
  Fetches(const ProgramAnalysis& analysis, Arguments& args, int threads)
      : analysis_(analysis), args_(args), threads_(threads) {}

  std::string write() {
    for (std::size_t i = 0; i < analysis_.instr_count(); ++i)
      if (analysis_.instr(i).kind == InstrKind::Load && analysis_.value(i).live) fetch(i);
    return std::move(text_);
  }

 private:
  /// Elements between the first and the last that the loops access; nothing if unknown.
  std::optional<std::int64_t> span(const AccessT& access) const {
    const auto& request = analysis_.request();
    const auto& exprs = analysis_.exprs();
    if (!request.given.contains(analysis_.program().buffers[access.buffer]) ||
        !access.nonaffine.empty() || !access.guards.empty())
      return std::nullopt;
    std::int64_t span = 1;
    for (std::size_t d = 0; d < analysis_.rank(); ++d) {
      const Dim &stride = exprs.dim(access.strides[d]), &extent = analysis_.extent(d);
      if (stride == ir::Dim(0) || extent == ir::Dim(1)) continue;
      if (!stride.is_constant() || !extent.is_constant() || stride.value() < 0) return std::nullopt;
      span += stride.value() * (extent.value() - 1);
    }
    return span;
  }

  /// The address of the first element; nothing if it depends on data that steps write.
  std::optional<std::string> address(const AccessT& access) {
    std::string text = args_.buffer(access.buffer);
    if (analysis_.exprs().dim(access.offset) != ir::Dim(0))
      text += fmt::format(" + {}", args_.expression(access.offset));
    for (const auto& gather : access.gathers) {
      const auto& value = analysis_.instr(gather.value());
      if (value.kind != InstrKind::Load) return std::nullopt;
      const auto& index = analysis_.access(value.access);
      if (!index.gathers.empty() || span(index) != 1) return std::nullopt;
      text += fmt::format(" + wrap_index(widen({}[{}]), {}) * {}", args_.buffer(index.buffer),
                          args_.expression(index.offset), args_.expression(gather.extent()),
                          args_.expression(gather.stride()));
    }
    return text;
  }

  void fetch(std::size_t load) {
    const auto& access = analysis_.access(analysis_.instr(load).access);
    const auto elements = span(access);
    if (!elements) return;
    const auto bytes =
        *elements * static_cast<std::int64_t>(size_of(analysis_.buffer_type(access.buffer)));
    if (bytes > kMostBytes) return;
    const auto from = address(access);
    if (!from) return;
    const std::string line =
        bytes <= kLine ? fmt::format("  if (threadIdx.x == 0) fetch_line({});\n", *from)
                       : fmt::format("  fetch_lines<{}>({}, {});\n", threads_, *from, bytes);
    if (text_.find(line) == std::string::npos) text_ += line;
  }

  const ProgramAnalysis& analysis_;
  Arguments& args_;
  int threads_;
  std::string text_;
};

}  // namespace

std::string prefetches(const ProgramAnalysis& analysis, Arguments& args, const Dim& blocks,
                       int threads) {
  if (!blocks.is_constant() || blocks.value() > kMostBlocks) return "";
  return Fetches(analysis, args, threads).write();
}

}  // namespace sinter::codegen
