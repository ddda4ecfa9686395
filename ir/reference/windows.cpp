// SPDX-License-Identifier: Apache-2.0
#include "ir/reference/windows.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

namespace sinter::ir {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidModel, message);
}

}  // namespace

const Ints& ints_attr(const Attrs& attrs, std::string_view name, std::size_t size,
                      std::int64_t least) {
  const auto& values = attrs.get_ints(name);
  if (values.size() != size)
    refuse(fmt::format("{} has {} values, expected {}", name, values.size(), size));
  for (const std::int64_t value : values)
    if (value < least)
      refuse(fmt::format("{} [{}] has a value below {}", name, fmt::join(values, ", "), least));
  return values;
}

Windows windows_attr(const Attrs& attrs, Ints kernel) {
  const std::size_t rank = kernel.size();
  return {std::move(kernel), ints_attr(attrs, "strides", rank, 1),
          ints_attr(attrs, "dilations", rank, 1), ints_attr(attrs, "pads_begin", rank, 0),
          ints_attr(attrs, "pads_end", rank, 0)};
}

std::vector<Dim> window_counts(const Windows& windows, std::span<const Dim> spatial) {
  std::vector<Dim> counts;
  for (std::size_t d = 0; d < spatial.size(); ++d) {
    const Dim extent = Dim(windows.dilations[d]) * Dim(windows.kernel[d] - 1) + Dim(1);
    const Dim padded = spatial[d] + Dim(windows.pads_begin[d]) + Dim(windows.pads_end[d]);
    const Dim rest = padded - extent;
    if (rest.is_constant() && rest.value() < 0)
      refuse(fmt::format(
          "window of {} does not fit into spatial dimension {} of size {} with pads {} and {}",
          extent.to_string(), d, spatial[d].to_string(), windows.pads_begin[d],
          windows.pads_end[d]));
    counts.push_back(floor_div(rest, Dim(windows.strides[d])) + Dim(1));
  }
  return counts;
}

}  // namespace sinter::ir
